// A report on a port of this machine, for as long as somebody looks at it: lockstep report --open.
#ifndef LOCKSTEP_CLI_PAGE_SERVER_H_
#define LOCKSTEP_CLI_PAGE_SERVER_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "base/http/http_server.h"

namespace lockstep::cli {

// Listens on 127.0.0.1, on a port that the system chooses. The page lies under a path of 256 random bits,
// since other users of the machine reach the port too; everything else is not found. One thread of its own,
// which ends with it.
class PageServer {
 public:
  // kUnavailable, kFailedPrecondition: no port, or no random bits.
  static absl::StatusOr<std::unique_ptr<PageServer>> Start(std::string page);
  PageServer(const PageServer&) = delete;
  PageServer& operator=(const PageServer&) = delete;

  const std::string& url() const { return url_; }

 private:
  PageServer() = default;
  std::string page_, path_, url_;
  std::unique_ptr<metrics::HttpServer> server_;  // last: its thread reads the others
};

// Starts $BROWSER, else xdg-open, with that address, and does not wait for it. False where there is neither.
bool OpenInBrowser(const std::string& url);

}  // namespace lockstep::cli

#endif  // LOCKSTEP_CLI_PAGE_SERVER_H_
