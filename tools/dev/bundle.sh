# ./dev bundle: build/lockstep-<version>-x86_64/ and the .tar.zst of it.
#
#   lib/      the loader, libc and every library the programs were built against, once; liblockstep_client.so
#   libexec/  the programs
#   bin/      small static starters (deploy/bundle/starter.c)
. tools/dev/lib.sh
if [ "${1:-}" = --help ]; then
  echo "usage: ./dev bundle    writes build/lockstep-<version>-x86_64/ and build/lockstep-<version>-x86_64.tar.zst"
  exit
fi
install build
say "building (release)"
configure_and_build release lockstep lockstepd lockstep-aggregator lockstep_client

version=$(cat VERSION)
name=lockstep-$version-x86_64
root=build/$name
rm -rf "$root"
mkdir -p "$root"/{bin,lib,libexec}

programs="lockstep lockstepd lockstep-aggregator"
for p in $programs; do
  cp "build/release/bin/$p" "$root/libexec/"
  strip --strip-unneeded "$root/libexec/$p"
done
cp build/release/lib/liblockstep_client.so "$root/lib/"
strip --strip-unneeded "$root/lib/liblockstep_client.so"

# Libraries by the names the loader asks for, each once, with whatever they need themselves.
for p in $programs; do ldd "$root/libexec/$p"; done | awk '$2 == "=>" && $3 ~ /^\// {print $1, $3}' | sort -u |
  while read -r soname path; do
    cp -L "$path" "$root/lib/$soname"
    strip --strip-unneeded "$root/lib/$soname" 2>/dev/null || true
  done
cp -L "$(readelf -l "$root/libexec/lockstep" | sed -n 's/.*interpreter: \(.*\)\]/\1/p')" "$root/lib/ld-linux-x86-64.so.2"
# Host names are looked up through these, opened by name at run time.
for nss in libnss_files.so.2 libnss_dns.so.2; do
  path=$(ldconfig -p | awk -v n="$nss" '$1 == n {print $NF; exit}')
  [ -n "$path" ] && cp -L "$path" "$root/lib/"
done

gcc -O2 -static -o "$root/bin/lockstep" deploy/bundle/starter.c
strip "$root/bin/lockstep"
for p in lockstepd lockstep-aggregator; do ln "$root/bin/lockstep" "$root/bin/$p"; done

cp -r tools/gpu_check "$root/gpu-check" 2>/dev/null || true
cp README.md VERSION "$root/"
find "$root" -name __pycache__ -prune -exec rm -rf {} +
tar -C build --sort=name --owner=0 --group=0 --numeric-owner --mtime='UTC 2026-01-01' -cf - "$name" |
  zstd -q -19 -T0 -f -o "build/$name.tar.zst"
bytes=$(stat -c %s "build/$name.tar.zst")
echo "build/$name.tar.zst: $((bytes / 1000)) kB, unpacks to build/$name"
[ "$bytes" -le 25000000 ] || die "the bundle may be at most 25 MB"
