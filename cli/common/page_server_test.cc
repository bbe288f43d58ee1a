#include "cli/common/page_server.h"

#include <gmock/gmock.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <fstream>

#include "base/http/http_client_fake.h"

namespace lockstep::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

struct Address {
  std::string host;
  std::string path;
};
Address ParsedUrl(const std::string& url) {
  const size_t slash = url.find('/', 7);
  return {url.substr(7, slash - 7), url.substr(slash)};
}
// Returns the value of a header.
std::string HeaderOf(const std::string& answer, const std::string& name) {
  const size_t at = answer.find("\r\n" + name + ": ");
  if (at == std::string::npos) return "";
  const size_t from = at + name.size() + 4;
  return answer.substr(from, answer.find("\r\n", from) - from);
}

class PageServerTest : public ::testing::Test {
 protected:
  // Follows the address as a browser does. Returns the last answer.
  std::string Follow(const Address& address) {
    std::string first = Get(address.host, address.path);
    if (first.rfind("HTTP/1.1 303", 0) != 0) return first;
    path_ = HeaderOf(first, "Location");
    const std::string cookie = HeaderOf(first, "Set-Cookie");
    cookie_ = "Cookie: " + cookie.substr(0, cookie.find(';')) + "\r\n";
    EXPECT_THAT(cookie, HasSubstr("HttpOnly; SameSite=Lax"));
    EXPECT_THAT(cookie, HasSubstr("Path=" + path_ + ";"));
    return Get(address.host, path_, cookie_);
  }

  const std::string page_ = "<!doctype html>" + std::string(3 << 20, 'x');
  std::unique_ptr<PageServer> server_ = *PageServer::Start(page_);
  std::string path_, cookie_;
};

TEST_F(PageServerTest, AnAddressOpensThePageOnce) {
  const Address address = ParsedUrl(*server_->NewAddress());
  EXPECT_GE(address.path.size(), 66u) << "256 bits";
  const std::string answer = Follow(address);
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(answer.substr(0, 400), HasSubstr("text/html"));
  EXPECT_EQ(BodyOf(answer), page_);
  EXPECT_THAT(Get(address.host, path_, cookie_), StartsWith("HTTP/1.1 200"))
      << "the browser may load it again";
  EXPECT_THAT(Get(address.host, address.path), StartsWith("HTTP/1.1 404")) << "the address was used";
  EXPECT_THAT(Get(address.host, path_), StartsWith("HTTP/1.1 404")) << "without the cookie";
  EXPECT_THAT(Get(address.host, path_, "Cookie: lockstep=" + std::string(64, '0') + "\r\n"),
              StartsWith("HTTP/1.1 404"));
}

TEST_F(PageServerTest, OtherPathsLeadNowhere) {
  const Address address = ParsedUrl(*server_->NewAddress());
  for (const std::string& other :
       {std::string("/"), std::string("//"), address.path.substr(0, address.path.size() - 1),
        address.path + "x", address.path + "../", std::string("/report.html")})
    EXPECT_THAT(Get(address.host, other), StartsWith("HTTP/1.1 404")) << other;
  EXPECT_THAT(Follow(address), StartsWith("HTTP/1.1 200")) << "none of them used the address up";
}

TEST_F(PageServerTest, RefusesOtherHosts) {
  const Address address = ParsedUrl(*server_->NewAddress());
  for (const char* host : {"evil.example", "127.0.0.1", "127.0.0.1:1", "", "localhost.evil.example"}) {
    FakeHttpClient client(address.host);
    client.Send("GET " + address.path + " HTTP/1.1\r\nHost: " + host + "\r\n\r\n");
    EXPECT_THAT(client.Receive(), StartsWith("HTTP/1.1 403")) << host;
  }
  EXPECT_THAT(Follow(address), StartsWith("HTTP/1.1 200"));
}

TEST_F(PageServerTest, AnOpenerIsReadableForItsUserOnlyAndEndsWithTheServer) {
  const std::string opener = *server_->NewOpener();
  struct stat info {};
  ASSERT_EQ(::stat(opener.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
  std::ifstream in(opener);
  const std::string text((std::istreambuf_iterator<char>(in)), {});
  const size_t begin = text.find("http://");
  ASSERT_NE(begin, std::string::npos);
  const Address address = ParsedUrl(text.substr(begin, text.find('"', begin) - begin));
  EXPECT_THAT(Follow(address), StartsWith("HTTP/1.1 200"));
  server_.reset();
  EXPECT_NE(::stat(opener.c_str(), &info), 0);
  EXPECT_NE(::stat(opener.substr(0, opener.rfind('/')).c_str(), &info), 0);
}

TEST(OpenInBrowserTest, StartsTheNamedBrowser) {
  std::string folder = ::testing::TempDir() + "browser.XXXXXX";
  ASSERT_NE(::mkdtemp(folder.data()), nullptr);
  const std::string program = folder + "/browser", told = folder + "/told";
  std::ofstream(program) << "#!/bin/sh\nprintf %s \"$1\" > " << told << "\n";
  ::chmod(program.c_str(), 0755);
  ::setenv("BROWSER", program.c_str(), 1);
  EXPECT_TRUE(OpenInBrowser("http://127.0.0.1:1/x/"));
  ASSERT_GT(::waitpid(-1, nullptr, 0), 0);
  std::ifstream in(told);
  const std::string url((std::istreambuf_iterator<char>(in)), {});
  EXPECT_EQ(url, "http://127.0.0.1:1/x/");
  ::setenv("BROWSER", "/nonexistent/browser", 1);
  EXPECT_FALSE(OpenInBrowser("http://127.0.0.1:1/x/"));
  ::unsetenv("BROWSER");
}

}  // namespace
}  // namespace lockstep::cli
