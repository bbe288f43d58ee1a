// PageServer serves a report on a local port while it runs (lockstep report --open).
#ifndef LOCKSTEP_CLI_COMMON_PAGE_SERVER_H_
#define LOCKSTEP_CLI_COMMON_PAGE_SERVER_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/http/http_server.h"
#include "base/mutex.h"
#include "base/rpc/token.h"

namespace lockstep::cli {

// Listens on 127.0.0.1 on a port that the system chooses. Other users of the machine can connect to the port,
// and can read the arguments of a browser's process. The page therefore has a path of 256 random bits, and
// needs a cookie. A browser gets both from an address that works once. That address is in a file that only
// this user can read, and the browser is started with the file's name.
//
// Requests whose Host is not this server are refused, so that a page of another site cannot reach it by a
// name that leads to this machine. It has its own thread, which ends with the object.
class PageServer {
 public:
  // Fails if no port can be opened or the kernel gives no random bits.
  static absl::StatusOr<std::unique_ptr<PageServer>> Start(std::string page);
  // Removes the openers that no browser has used.
  ~PageServer();
  PageServer(const PageServer&) = delete;
  PageServer& operator=(const PageServer&) = delete;

  // Returns a new address that leads to the page once.
  absl::StatusOr<std::string> NewAddress();
  // Returns the path of a new HTML file that leads a browser to a new address.
  absl::StatusOr<std::string> NewOpener();

 private:
  PageServer(std::string page, const rpc::Token& path, rpc::Token cookie);
  HttpResponse Answer(const HttpRequest& request);
  // Returns whether the path is that of an address which was not used, and marks it as used.
  bool Use(const std::string& path);

  const std::string page_;
  const std::string path_;
  const rpc::Token cookie_;
  std::vector<std::string> openers_;  // thread: owner
  Mutex mutex_;
  std::vector<rpc::Token> unused_ ABSL_GUARDED_BY(mutex_);
  // thread: owner; set once. Last, because its thread reads the other members.
  std::unique_ptr<HttpServer> server_;
};

// Starts $BROWSER, else xdg-open, with that file or address, and does not wait for it. Returns false if
// neither exists.
bool OpenInBrowser(const std::string& what);

}  // namespace lockstep::cli

#endif  // LOCKSTEP_CLI_COMMON_PAGE_SERVER_H_
