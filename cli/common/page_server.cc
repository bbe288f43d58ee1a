#include "cli/common/page_server.h"

#include <fcntl.h>
#include <spawn.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/rpc/status_macros.h"
#include "base/rpc/token.h"

namespace lockstep::cli {
namespace {

// A slow reader may fetch a page of several megabytes.
constexpr Nanos kTimeToRead = Nanos::Seconds(60);

}  // namespace

absl::StatusOr<std::unique_ptr<PageServer>> PageServer::Start(std::string page) {
  LOCKSTEP_ASSIGN_OR_RETURN(const rpc::Token token, rpc::Token::Random());
  std::unique_ptr<PageServer> out(new PageServer());
  out->page_ = std::move(page);
  out->path_ = absl::StrCat("/", token.text(), "/");
  HttpServerOptions options{.address = "127.0.0.1:0", .token = {}};
  options.answer_time = kTimeToRead;
  const auto answer = [&server = *out, token](const HttpRequest& request, const HttpCounts&) -> HttpResponse {
    const std::string& path = request.path;
    const bool ours = path.size() == server.path_.size() && path.front() == '/' && path.back() == '/' &&
                      token.Matches(std::string_view(path).substr(1, path.size() - 2));
    if (!ours) return {.status = 404, .body = "not found\n"};
    return {.content_type = "text/html; charset=utf-8", .body = server.page_};
  };
  LOCKSTEP_ASSIGN_OR_RETURN(out->server_, HttpServer::Start(std::move(options), answer));
  out->url_ = absl::StrCat("http://", out->server_->address(), out->path_);
  return out;
}

bool OpenInBrowser(const std::string& url) {
  const char* chosen = std::getenv("BROWSER");
  std::string program = chosen != nullptr && chosen[0] != '\0' ? chosen : "xdg-open";
  std::string address = url;
  char* const arguments[] = {program.data(), address.data(), nullptr};
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
