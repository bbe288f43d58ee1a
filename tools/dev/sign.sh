# ./dev sign: writes checksums and detached signatures of the files of a release (RELEASING.md).
. tools/dev/lib.sh

key= folder=build
while [ $# -gt 0 ]; do
  case "$1" in
    --key) key=${2:?"--key needs a key's id, fingerprint or user"}; shift ;;
    -h|--help|-*) echo "usage: ./dev sign --key KEY [DIR]
  Writes DIR/SHA256SUMS of this version's bundles, packages, images and SPDX documents in DIR (build), and a detached signature
  FILE.asc of each of them and of SHA256SUMS. KEY is a secret key of gpg, which asks for its passphrase if it has one." >&2
       case "$1" in -h|--help) exit 0 ;; *) exit 2 ;; esac ;;
    *) folder=$1 ;;
  esac
  shift
done
[ -n "$key" ] || die "--key is missing: gpg --list-secret-keys shows your keys"
install sign

version=$(cat VERSION)
cd "$folder"
shopt -s nullglob
files=(lockstep-"$version"-*.tar.zst{,.spdx.json} lockstep-*_"$version"-*.deb{,.spdx.json} lockstep-"$version"-*.oci.tar{,.spdx.json})
[ ${#files[@]} -gt 0 ] || die "$folder has no files of version $version: ./dev bundle and ./dev deb make them"
sha256sum "${files[@]}" > SHA256SUMS
for file in SHA256SUMS "${files[@]}"; do
  gpg --batch --yes --quiet --local-user "$key" --armor --detach-sign --output "$file.asc" "$file" || die "gpg did not sign $folder/$file"
done
echo "$folder/SHA256SUMS: ${#files[@]} files, each with a signature FILE.asc"
