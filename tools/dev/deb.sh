# ./dev deb: makes OUT/lockstep-{client,daemon,aggregator,cli}_<version>_<architecture>.deb, and the .spdx.json of each (docs/install.md).
#
# It uses dpkg-deb instead of CPack. CPack's generator writes neither a changelog nor a copyright file, and computes dependencies
# only for binaries in the build tree. A package contains the files that `cmake --install --component` installs.
. tools/dev/lib.sh

preset=release built= out=build level=6
while [ $# -gt 0 ]; do
  case "$1" in
    --preset) preset=${2:?"--preset needs a name"}; shift ;;
    --built) built=${2:?"--built needs a folder"}; shift ;;
    --level) level=${2:?"--level needs a number"}; shift ;;
    -o|--out) out=${2:?"$1 needs a folder"}; shift ;;
    *) echo "usage: ./dev deb [--preset release|dev] [--built DIR] [--level N] [-o DIR]
  Writes four packages, of client, daemon, aggregator and CLI, into DIR (build).
  --built DIR   of the build tree DIR as it is: installs and builds nothing
  --level N     of xz (6); a smaller one is faster
  DEBFULLNAME and DEBEMAIL name the maintainer, as in Debian's own tools" >&2
       case "$1" in -h|--help) exit 0 ;; *) exit 2 ;; esac ;;
  esac
  shift
done

if [ -z "$built" ]; then
  install build deb
  build_installed "$preset"
  built=build/$preset
fi
for tool in dpkg-deb dpkg-shlibdeps; do
  command -v $tool >/dev/null || die "there is no $tool: apt-get install dpkg dpkg-dev"
done

version=$(cat VERSION)-1
architecture=$(dpkg --print-architecture)
multiarch=$(dpkg-architecture -q DEB_HOST_MULTIARCH)
maintainer="${DEBFULLNAME:-Lockstep packages} <${DEBEMAIL:-root@$(hostname -f 2>/dev/null || hostname)}>"
equal_surroundings
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$out"

# stage PACKAGE: installs the package's files in Debian's layout.
stage() {
  local component=$1 root=$2
  DESTDIR=$root cmake --install "$built" --prefix /usr --component "$component" >/dev/null
  # A build tree that was configured for another prefix uses lib.
  if [ "$component" = client ] && [ -d "$root/usr/lib/lockstep" ]; then
    mkdir -p "$root/usr/lib/$multiarch"
    mv "$root/usr/lib/lockstep" "$root/usr/lib/$multiarch/"
  fi
  find "$root" -type f \( -name '*.so' -o -path '*/bin/*' \) -exec strip --strip-unneeded --remove-section=.comment --remove-section=.note {} +
  find "$root/usr" -name '*.so' -exec chmod 644 {} +
  [ ! -d "$root/usr/share/man" ] || find "$root/usr/share/man" -type f -exec gzip -9n {} +
}

# documents COMPONENT ROOT: writes the licences, the changelog and the documents of a package.
documents() {
  local package=lockstep-$1 doc=$2/usr/share/doc/lockstep-$1
  mkdir -p "$doc"
  cp deploy/deb/copyright.in "$doc/copyright"
  if [ "$1" = cli ] || [ "$1" = aggregator ]; then
    cat deploy/deb/copyright_uplot.in >> "$doc/copyright"
    sed 's/^$/./; s/^/ /' "$built/web/node_modules/uplot/LICENSE" >> "$doc/copyright"
  fi
  printf '%s (%s) unstable; urgency=medium\n\n  * Built from the sources of this version.\n\n -- %s  %s\n' "$package" "$version" "$maintainer" \
    "$(date -u -R -d "@$SOURCE_DATE_EPOCH")" | gzip -9n > "$doc/changelog.Debian.gz"
  if [ "$1" = cli ]; then cp docs/install.md docs/operations.md docs/launching.md README.md "$doc/"; fi
}

# shared_libraries ROOT: prints the packages that its binaries need, with versions.
shared_libraries() {
  local binaries
  mapfile -t binaries < <(find "$1/usr" -type f \( -name '*.so' -o -path '*/bin/*' \))
  mkdir -p "$work/source/debian"
  printf 'Source: lockstep\n\nPackage: lockstep\nArchitecture: any\n' > "$work/source/debian/control"
  (cd "$work/source" && dpkg-shlibdeps -O "${binaries[@]}" 2>/dev/null) | sed -n 's/^shlibs:Depends=//p' | grep . ||
    die "dpkg-shlibdeps found nothing that ${binaries[*]} need"
}

# installed_kib ROOT: prints the size as Debian's policy defines it, which does not depend on the file system.
installed_kib() { find "$1" -path "$1/DEBIAN" -prune -o -printf '%y %s\n' | awk '{kib += $1 == "f" ? int(($2 + 1023) / 1024) : 1} END {print kib}'; }

# code_of_others COMPONENT: prints options of sbom.py for the code of others that its program contains (deploy/deb/copyright.in).
code_of_others() {
  echo --static "$(static_everywhere)"
  case "$1" in daemon) echo libcli11-dev ;; aggregator|cli) echo libcli11-dev libiberty-dev --npm "$built/web/node_modules/uplot/package.json" ;; esac
}

# control COMPONENT ROOT: prints the package's control stanza with all fields.
control() {
  local libraries
  libraries=$(shared_libraries "$2")
  awk -v package="Package: lockstep-$1" -v fields="Version: $version\nArchitecture: $architecture\nMaintainer: $maintainer\nPriority: optional\nSource: lockstep\nInstalled-Size: $(installed_kib "$2")" \
      -v libraries="$libraries" '
    /^#/ {next} /^$/ {inside = 0} $0 == package {inside = 1; print; print fields; next}
    inside {sub(/@SHLIBS@/, libraries); print}' deploy/deb/control.in
}

package() {
  local component=$1 root=$work/$1 script
  stage "$component" "$root"
  documents "$component" "$root"
  mkdir -p "$root/DEBIAN"
  control "$component" "$root" > "$root/DEBIAN/control"
  for script in postinst prerm postrm; do
    [ ! -e "deploy/deb/$component.$script" ] || command install -m 755 "deploy/deb/$component.$script" "$root/DEBIAN/$script"
  done
  if [ -d "$root/etc" ]; then (cd "$root" && find etc -type f -printf '/%p\n' | sort > DEBIAN/conffiles); fi
  (cd "$root" && find usr -type f -print0 | sort -z | xargs -0 md5sum > DEBIAN/md5sums)
  chmod -R u=rwX,go=rX "$root"
  dpkg-deb --root-owner-group -Zxz "-z$level" --build "$root" "$out" >/dev/null
  local file=$out/lockstep-${component}_${version}_$architecture.deb
  rm -r "$root/DEBIAN"
  # shellcheck disable=SC2046
  write_sbom "$file" "$root" $(code_of_others "$component")
  echo "$file: $(($(stat -c %s "$file") / 1000)) kB"
}

for component in client daemon aggregator cli; do package $component; done
