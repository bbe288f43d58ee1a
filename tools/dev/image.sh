# ./dev image: makes OUT/lockstep-<version>-x86_64.oci.tar, the image for Kubernetes, of the bundle in OUT (docs/kubernetes.md).
#
# Nothing comes from a registry: the image starts empty and gets the bundle and Debian's static BusyBox.
. tools/dev/lib.sh

out=build context_only=0
while [ $# -gt 0 ]; do
  case "$1" in
    --out) out=${2:?"--out needs a folder"}; shift ;;
    --context-only) context_only=1 ;;
    *) echo "usage: ./dev image [--out DIR] [--context-only]
  Writes DIR/lockstep-<version>-x86_64.oci.tar, an OCI archive, of the bundle that ./dev bundle wrote into DIR (build).
  --context-only   only makes DIR/image, the folder for another builder:
                   podman build -t lockstep:<version> -f deploy/kubernetes/image/Containerfile DIR/image" >&2
       case "$1" in -h|--help) exit 0 ;; *) exit 2 ;; esac ;;
  esac
  shift
done
[ $context_only = 1 ] || install image
version=$(cat VERSION)
name=lockstep-$version-x86_64
[ -d "$out/$name" ] || die "the bundle $out/$name is missing: run ./dev bundle"
[ -x /bin/busybox ] || die "/bin/busybox is missing: apt-get install busybox-static"
equal_surroundings

context=$out/image
rm -rf "$context"
mkdir -p "$context"/busybox/{bin,tmp,usr/share/doc/busybox-static}
cp -r --preserve=links "$out/$name" "$context/"
cp /bin/busybox "$context/busybox/bin/"
cp /usr/share/doc/busybox-static/copyright "$context/busybox/usr/share/doc/busybox-static/"
for applet in $(/bin/busybox --list); do [ "$applet" = busybox ] || ln -s busybox "$context/busybox/bin/$applet"; done
chmod -R u=rwX,go=rX "$context"
chmod 1777 "$context/busybox/tmp"
[ $context_only = 0 ] || { echo "$context"; exit; }

# The builder works in folders of its own, and neither needs a daemon nor touches the machine's images.
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
buildah() { command buildah --root "$scratch/images" --runroot "$scratch/run" --storage-driver vfs "$@"; }
buildah build --quiet --isolation chroot --timestamp "$SOURCE_DATE_EPOCH" --build-arg "VERSION=$version" -t "lockstep:$version" \
  -f deploy/kubernetes/image/Containerfile "$context" >/dev/null
buildah push --quiet "lockstep:$version" "oci:$scratch/oci:lockstep:$version"
file=$out/$name.oci.tar
tar -C "$scratch/oci" --sort=name --owner=0 --group=0 --numeric-owner --mode=u=rwX,go=rX --mtime="@$SOURCE_DATE_EPOCH" -cf "$file" .

mkdir -p "$scratch/tree/opt"
cp -r "$context/busybox/." "$scratch/tree/"
cp -r --preserve=links "$context/$name" "$scratch/tree/opt/lockstep"
write_sbom "$file" "$scratch/tree" --copied busybox-static --inside "$out/$name.tar.zst.spdx.json"
echo "$file: $(($(stat -c %s "$file") / 1000)) kB"
