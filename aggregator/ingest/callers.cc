#include "aggregator/ingest/callers.h"

#include <grpcpp/server_context.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "common/rpc/status_macros.h"

namespace lockstep::ingest {

absl::StatusOr<Caller> Callers::Of(const grpc::ServerContextBase& context) const {
  const auto& metadata = context.client_metadata();
  const auto credential = metadata.find(rpc::kMungeMetadata);
  const bool by_token = metadata.find(rpc::kTokenMetadata) != metadata.end();
  if (credentials_ == nullptr || by_token) {
    LOCKSTEP_RETURN_IF_ERROR(token_.Check(context));
    return Caller::All();
  }
  if (credential == metadata.end()) {
    return absl::UnauthenticatedError(
        "this aggregator knows its callers by MUNGE, and no credential came: call it from a machine of the cluster on which munged runs, "
        "or give --token-file");
  }
  LOCKSTEP_ASSIGN_OR_RETURN(const uid_t uid, credentials_->Read(std::string(credential->second.data(), credential->second.size())));
  return Caller::User(uid);
}

}  // namespace lockstep::ingest
