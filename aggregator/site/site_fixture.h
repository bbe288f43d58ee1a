// Stored captures for tests and benchmarks, as an aggregator leaves them.
#ifndef LOCKSTEP_AGGREGATOR_SITE_SITE_FIXTURE_H_
#define LOCKSTEP_AGGREGATOR_SITE_SITE_FIXTURE_H_

#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

#include "aggregator/captures/callers.h"
#include "base/access/user_directory.h"
#include "base/files/byte_sink.h"
#include "base/rpc/connection_gate.h"
#include "capture/store/records_manifest.h"
#include "report/report.h"

namespace lockstep::aggregator {

// Callers of an aggregator with that token, which knows the users of the system. Everybody may capture their
// own jobs.
class HttpCallers {
 public:
  explicit HttpCallers(const std::string& token, const RoleSettings& roles = {})
      : callers_({.token = *rpc::Token::FromText(token),
                  .credentials = nullptr,
                  .security = nullptr,
                  .roles = std::make_shared<Roles>(roles, users_, clock_),
                  .users = users_,
                  .clock = clock_},
                 gate_) {}
  const Callers& all() const { return callers_; }

 private:
  const std::shared_ptr<const UserDirectory> users_ = std::make_shared<SystemUsers>();
  const std::shared_ptr<const Clock> clock_ = std::make_shared<SystemClock>();
  rpc::ConnectionGate gate_;
  const Callers callers_;
};

class CapturesFolder {
 public:
  CapturesFolder() {
    char pattern[] = "/tmp/lockstep-site-XXXXXX";
    path_ = ::mkdtemp(pattern);
  }
  ~CapturesFolder() { std::filesystem::remove_all(path_); }
  CapturesFolder(const CapturesFolder&) = delete;
  CapturesFolder& operator=(const CapturesFolder&) = delete;

  const std::string& path() const { return path_; }

  static capture::Manifest SomeManifest(const std::string& id) {
    capture::Manifest m;
    m.id = id;
    m.job = "llama-7b";
    m.uid = 1000;
    m.world_size = 2;
    m.t0 = JobTime(1'700'000'000'000'000'000);
    m.t1 = m.t0 + Nanos::Seconds(2);
    m.complete = true;
    m.hosts.push_back({"node-0", "host-a", {}});
    for (int rank = 0; rank < 2; ++rank) {
      capture::ManifestProcess p;
      p.rank = RankId(rank);
      p.host = 0;
      p.state = "done";
      p.files.push_back({"r0.p00000.0.lsr", 10, {}});
      p.files[0].rows[1] = 500;
      m.processes.push_back(p);
    }
    return m;
  }
  static report::Report SomeReport(const capture::Manifest& manifest) {
    report::Report r;
    r.capture.id = manifest.id;
    r.capture.job = manifest.job;
    r.capture.source = "live";
    r.capture.start_unix_ns = manifest.t0.ns();
    r.capture.duration = manifest.t1 - manifest.t0;
    r.capture.world_size = manifest.world_size;
    r.capture.hosts = 1;
    r.capture.steps = 12;
    r.capture.losses.push_back({RankId(1), "ring", "kernel", 25, 0, 0, "full"});
    r.capture.matching.matched_fraction = 1;
    for (int rank = 0; rank < 2; ++rank)
      r.ranks.push_back({.rank = RankId(rank), .host = "host-a", .span = Nanos::Seconds(2)});
    r.slowdown.step_ns = 1.1e8;
    r.slowdown.ideal_step_ns = 1e8;
    r.slowdown.ratio = 1.1;
    r.slowdown.lost_ns_per_step = 1e7;
    report::StragglerRow s;
    s.kind = "rank";
    s.ranks = {RankId(1)};
    s.hosts = {"host-a"};
    s.cause = "gpu_clock";
    s.verdict = "sure";
    s.lost_ns_per_step = 1e7;
    s.gain_ns_per_step = 9.5e6;
    s.affected_steps = 1;
    r.stragglers.push_back(s);
    return r;
  }

  void Write(const std::string& file, const std::string& text) const {
    const std::filesystem::path path = std::filesystem::path(path_) / file;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }
  void AddManifest(const capture::Manifest& m) const {
    Write(m.id + "/records/manifest.json", capture::ManifestToJson(m));
  }
  // Writes a capture with its report.
  void Add(const std::string& id) const {
    const capture::Manifest manifest = SomeManifest(id);
    AddManifest(manifest);
    StringSink json;
    if (!report::WriteJson(SomeReport(manifest), json).ok()) std::abort();
    Write(id + "/report.json", json.text());
    Write(id + "/report.txt", report::RenderText(SomeReport(manifest)));
    Write(id + "/report.html", "<!doctype html>the report of " + id);
  }

 private:
  std::string path_;
};

}  // namespace lockstep::aggregator

#endif  // LOCKSTEP_AGGREGATOR_SITE_SITE_FIXTURE_H_
