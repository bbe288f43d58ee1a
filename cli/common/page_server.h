// PageServer serves a report on a local port while it runs (lockstep report --open).
#ifndef LOCKSTEP_CLI_COMMON_PAGE_SERVER_H_
#define LOCKSTEP_CLI_COMMON_PAGE_SERVER_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "base/http/http_server.h"

namespace lockstep::cli {

// Listens on 127.0.0.1 on a port that the system chooses. Other users of the machine can connect to the port,
// so the page has a path of 256 random bits. All other paths give 404. It has its own thread, which ends with
// the object.
class PageServer {
 public:
  // Fails if no port can be opened or the kernel gives no random bits.
  static absl::StatusOr<std::unique_ptr<PageServer>> Start(std::string page);
  PageServer(const PageServer&) = delete;
  PageServer& operator=(const PageServer&) = delete;

  const std::string& url() const { return url_; }

 private:
  PageServer() = default;
  std::string page_, path_, url_;
  std::unique_ptr<HttpServer> server_;  // last, because its thread reads the other members
};

// Starts $BROWSER, else xdg-open, with that address, and does not wait for it. Returns false if neither
// exists.
bool OpenInBrowser(const std::string& url);

}  // namespace lockstep::cli

#endif  // LOCKSTEP_CLI_COMMON_PAGE_SERVER_H_
