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

TEST(PageServerTest, ServesThePageUnderItsSecretPathOnly) {
  const std::string page = "<!doctype html>" + std::string(3 << 20, 'x');
  auto server = PageServer::Start(page);
  ASSERT_TRUE(server.ok()) << server.status();
  const std::string url = (*server)->url();
  ASSERT_THAT(url, StartsWith("http://127.0.0.1:"));
  const size_t slash = url.find('/', 7);
  const std::string address = url.substr(7, slash - 7), path = url.substr(slash);
  EXPECT_GE(path.size(), 34u) << "at least 128 bits";
  const std::string answer = Get(address, path);
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(answer.substr(0, 400), HasSubstr("text/html"));
  EXPECT_EQ(BodyOf(answer), page);
  const std::string wrong[] = {"/",        "//",         path.substr(0, path.size() - 1),
                               path + "x", path + "../", "/report.html"};
  for (const std::string& other : wrong) {
    EXPECT_THAT(Get(address, other), StartsWith("HTTP/1.1 404")) << other;
  }
  auto second = PageServer::Start(page);
  ASSERT_TRUE(second.ok());
  EXPECT_NE((*second)->url().substr((*second)->url().find('/', 7)), path) << "each has a path of its own";
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
