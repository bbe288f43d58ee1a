#include "cli/common/page_server.h"

#include <fcntl.h>
#include <spawn.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/files/secret_file.h"
#include "base/rpc/status_macros.h"

namespace lockstep::cli {
namespace {

// A slow reader may fetch a page of several megabytes.
constexpr Nanos kTimeToRead = Nanos::Seconds(60);
constexpr absl::string_view kCookie = "lockstep=";

}  // namespace

PageServer::PageServer(std::string page, const rpc::Token& path, rpc::Token cookie)
    : page_(std::move(page)), path_(absl::StrCat("/", path.text(), "/")), cookie_(std::move(cookie)) {}

PageServer::~PageServer() {
  server_.reset();
  for (const std::string& opener : openers_) {
    std::error_code error;
    std::filesystem::remove(opener, error);
    std::filesystem::remove(std::filesystem::path(opener).parent_path(), error);
  }
}

absl::StatusOr<std::unique_ptr<PageServer>> PageServer::Start(std::string page) {
  LOCKSTEP_ASSIGN_OR_RETURN(const rpc::Token path, rpc::Token::Random());
  LOCKSTEP_ASSIGN_OR_RETURN(rpc::Token cookie, rpc::Token::Random());
  std::unique_ptr<PageServer> out(new PageServer(std::move(page), path, std::move(cookie)));
  HttpServerOptions options{.address = "127.0.0.1:0"};
  options.answer_time = kTimeToRead;
  LOCKSTEP_ASSIGN_OR_RETURN(
      out->server_,
      HttpServer::Start(std::move(options), [&server = *out](const HttpRequest& request, const HttpCounts&) {
        return server.Answer(request);
      }));
  return out;
}

absl::StatusOr<std::string> PageServer::NewAddress() {
  LOCKSTEP_ASSIGN_OR_RETURN(rpc::Token secret, rpc::Token::Random());
  std::string address = absl::StrCat("http://", server_->address(), "/", secret.text(), "/");
  MutexLock lock(&mutex_);
  unused_.push_back(std::move(secret));
  return address;
}

absl::StatusOr<std::string> PageServer::NewOpener() {
  LOCKSTEP_ASSIGN_OR_RETURN(const std::string address, NewAddress());
  const char* runtime = std::getenv("XDG_RUNTIME_DIR");
  std::string folder =
      absl::StrCat(runtime != nullptr && runtime[0] == '/' ? runtime : "/tmp", "/lockstep-page-XXXXXX");
  if (::mkdtemp(folder.data()) == nullptr)
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot create folder ", folder));
  std::string opener = absl::StrCat(folder, "/report.html");
  openers_.push_back(opener);
  LOCKSTEP_RETURN_IF_ERROR(
      CreateSecretFile(opener, "page",
                       absl::StrCat("<!doctype html><meta charset=\"utf-8\"><title>Lockstep</title>"
                                    "<meta name=\"referrer\" content=\"no-referrer\">"
                                    "<meta http-equiv=\"refresh\" content=\"0; url=",
                                    address, "\">\n")));
  return opener;
}

bool PageServer::Use(const std::string& path) {
  if (path.size() < 2 || path.front() != '/' || path.back() != '/') return false;
  const std::string_view secret = std::string_view(path).substr(1, path.size() - 2);
  MutexLock lock(&mutex_);
  return std::erase_if(unused_, [&](const rpc::Token& each) { return each.Matches(secret); }) > 0;
}

HttpResponse PageServer::Answer(const HttpRequest& request) {
  const std::string address = server_->address();
  const std::string port = address.substr(address.rfind(':'));
  if (request.host != address && request.host != absl::StrCat("localhost", port))
    return {.status = 403, .body = "this server has another name\n"};
  if (request.path == path_) {
    for (absl::string_view cookie : absl::StrSplit(request.cookie, ';')) {
      cookie = absl::StripAsciiWhitespace(cookie);
      if (absl::ConsumePrefix(&cookie, kCookie) && cookie_.Matches({cookie.data(), cookie.size()}))
        return {.content_type = "text/html; charset=utf-8", .body = page_};
    }
  }
  if (!Use(request.path))
    return {.status = 404, .body = "not found, or used before: run lockstep report --open again\n"};
  HttpResponse response{.status = 303, .body = "the page is elsewhere\n"};
  response.headers.emplace_back("Location", path_);
  // Lax, because the browser comes from a file, which is another site than this one.
  response.headers.emplace_back(
      "Set-Cookie", absl::StrCat(kCookie, cookie_.text(), "; Path=", path_, "; HttpOnly; SameSite=Lax"));
  return response;
}

bool OpenInBrowser(const std::string& what) {
  const char* chosen = std::getenv("BROWSER");
  std::string program = chosen != nullptr && chosen[0] != '\0' ? chosen : "xdg-open";
  std::string argument = what;
  char* const arguments[] = {program.data(), argument.data(), nullptr};
  posix_spawn_file_actions_t streams;
  posix_spawn_file_actions_init(&streams);
  // The browser's messages must not mix with the command's output.
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    posix_spawn_file_actions_addopen(&streams, fd, "/dev/null", O_RDWR, 0);
  // This process blocks SIGINT to handle it; the browser must not inherit that.
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t none;
  sigemptyset(&none);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setpgroup(&attributes, 0);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETPGROUP);
  pid_t child = -1;
  const int failed = posix_spawnp(&child, program.c_str(), &streams, &attributes, arguments, environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&streams);
  return failed == 0;
}

}  // namespace lockstep::cli
