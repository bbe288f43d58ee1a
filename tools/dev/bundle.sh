# ./dev bundle: makes OUT/lockstep-<version>-x86_64/, its .tar.zst (docs/bundle.md), and the .spdx.json of that (docs/install.md).
#
#   bin/       small static starters (deploy/bundle/starter.c)
#   libexec/   the programs
#   lib/       the loader, libc and all libraries of the programs, once each; liblockstep_client.so
#   licenses/  the licences of those libraries, by Debian package, and a list
#   slurm/     the Slurm plugin, which is compiled on the cluster, and the prologs that can replace it (docs/slurm.md)
#   gpu-check/ the files of ./dev gpu-check, for machines without this repository; with train_loop if nvcc built it
. tools/dev/lib.sh

preset=release built= out=build level=19 arch=x86_64
while [ $# -gt 0 ]; do
  case "$1" in
    --preset) preset=${2:?"--preset needs a name"}; shift ;;
    --built) built=${2:?"--built needs a folder"}; shift ;;
    --out) out=${2:?"--out needs a folder"}; shift ;;
    --level) level=${2:?"--level needs a number"}; shift ;;
    --arch) arch=${2:?"--arch needs a processor"}; shift ;;
    *) echo "usage: ./dev bundle [--preset release|dev] [--built DIR] [--out DIR] [--level N] [--arch x86_64|aarch64]
  Writes OUT/lockstep-<version>-x86_64.tar.zst and the folder it unpacks to (OUT: build).
  --built DIR   of the programs in DIR/bin and DIR/lib as they are: installs and builds nothing
  --level N     of zstd (19); a smaller one is faster
  --arch ARCH   aarch64: only the client for ARM processors (docs/bundle.md says what is missing)" >&2
       case "$1" in -h|--help) exit 0 ;; *) exit 2 ;; esac ;;
  esac
  shift
done

equal_surroundings

# archive NAME: makes OUT/NAME.tar.zst of the folder OUT/NAME.
archive() {
  chmod -R u=rwX,go=rX "$out/$1"
  tar -C "$out" --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" -cf - "$1" |
    zstd -q "-$level" -T0 -f -o "$out/$1.tar.zst"
}

case "$arch" in
  x86_64) ;;
  aarch64)
    install build aarch64
    configure_and_build aarch64 lockstep_client
    name=lockstep-$(cat VERSION)-aarch64
    rm -rf "${out:?}/$name"
    mkdir -p "$out/$name"/{lib,include,licenses,docs}
    aarch64-linux-gnu-strip --strip-unneeded -o "$out/$name/lib/liblockstep_client.so" build/aarch64/lib/liblockstep_client.so
    cp client/lockstep.h "$out/$name/include/"
    cp LICENSE "$out/$name/licenses/lockstep"
    cp README.md VERSION "$out/$name/"
    cp docs/bundle.md docs/triggers.md "$out/$name/docs/"
    archive "$name"
    write_sbom "$out/$name.tar.zst" "$out/$name"
    echo "$out/$name.tar.zst: the client only; daemon and CLI for ARM processors have to be built on one (docs/bundle.md)"
    exit ;;
  *) die "--arch $arch: only x86_64 and aarch64 are known" ;;
esac

if [ -z "$built" ]; then
  install build
  build_installed "$preset"
  built=build/$preset
  # Only gpu-check uses this program. The target exists if CMake has found nvcc and NCCL.
  if ninja -C "$built" -t query lockstep_train_loop_nvcc >/dev/null 2>&1; then
    cmake --build --preset "$preset" -- lockstep_train_loop_nvcc >&2
  fi
fi

name=lockstep-$(cat VERSION)-x86_64
mkdir -p "$out"
# The bundle is made beside its final place and moved there when it is complete.
root=$(mktemp -d "$out/.$name.XXXXXX")
trap 'rm -rf "$root"' EXIT
mkdir -p "$root"/{bin,lib,libexec,licenses,docs,include}

for program in $programs; do
  strip --strip-unneeded -o "$root/libexec/$program" "$built/bin/$program"
done
strip --strip-unneeded -o "$root/lib/liblockstep_client.so" "$built/lib/liblockstep_client.so"

# package_of FILE: prints the Debian package of the file. The database has a file under one of its two names.
package_of() {
  local file
  for file in "$1" "$(readlink -f "$1")" "/usr$1" "/usr$(readlink -f "$1")"; do
    dpkg-query -S "$file" 2>/dev/null | sed -n '1s/:.*//p' | grep . && return
  done
  die "no package owns $1"
}

# Libraries by the names that the loader requests, once each, with their own dependencies. The loader is one of them.
needed=$(for program in $programs; do ldd "$root/libexec/$program"; done |
  awk '/not found/ {print "missing", $1} $2 == "=>" && $3 ~ /^\// {print $1, $3} $1 ~ /^\/.*ld-linux/ {print "ld-linux-x86-64.so.2", $1}' |
  sort -u)
case "$needed" in *missing*) die "libraries of the programs are missing: $needed" ;; esac
echo "$needed" | while read -r soname path; do
  cp -L "$path" "$root/lib/$soname"
  chmod u+w "$root/lib/$soname"
  package=$(package_of "$path")
  printf '%-32s %s %s\n' "$soname" "$package" "$(dpkg-query -W -f='${Version}' "$package" | head -n 1)"
  [ -e "$root/licenses/$package" ] || cp "/usr/share/doc/$package/copyright" "$root/licenses/$package"
done > "$root/licenses/LIBRARIES"
# Licences of the code in the programs and in the page of report.html, which are not separate libraries.
cp LICENSE "$root/licenses/lockstep"
for package in libcli11-dev libiberty-dev; do cp "/usr/share/doc/$package/copyright" "$root/licenses/$package"; done
cp "$built/web/node_modules/uplot/LICENSE" "$root/licenses/uplot"
chmod 755 "$root"/lib/*

strip -o "$root/bin/lockstep" "$built/bin/lockstep_starter"
for program in lockstepd lockstep-aggregator; do ln "$root/bin/lockstep" "$root/bin/$program"; done

mkdir "$root/slurm"
cp deploy/slurm/spank_lockstep.c deploy/slurm/*.sh "$root/slurm/"
cp -r tools/gpu_check "$root/gpu-check"
rm -f "$root"/gpu-check/*_test.py
if [ -e "$built/bin/lockstep_train_loop_nvcc" ]; then
  cp "$built/bin/lockstep_train_loop_nvcc" "$root/gpu-check/train_loop"
else
  say "no nvcc with NCCL when this was built: gpu-check will skip its check A15"
fi
find "$root" -name __pycache__ -prune -exec rm -rf {} +
cp README.md VERSION "$root/"
cp docs/bundle.md docs/gpu-check.md docs/slurm.md docs/triggers.md "$root/docs/"
cp client/lockstep.h "$root/include/"

rm -rf "${out:?}/$name"
mv "$root" "$out/$name"
archive "$name"
# shellcheck disable=SC2046
write_sbom "$out/$name.tar.zst" "$out/$name" --libraries "$out/$name/licenses/LIBRARIES" \
  --static $(static_everywhere) libcli11-dev libiberty-dev --npm "$built/web/node_modules/uplot/package.json"
bytes=$(stat -c %s "$out/$name.tar.zst")
echo "$out/$name.tar.zst: $((bytes / 1000)) kB, unpacks to $out/$name ($(du -s --block-size=1000 "$out/$name" | cut -f 1) kB)"
[ "$bytes" -le 25000000 ] || die "the bundle may be at most 25 MB"
