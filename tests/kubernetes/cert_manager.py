"""Simulates cert-manager and its CSI driver for one cluster: self-signed and CA issuers of namespaces. OpenSSL signs
the certificates, with the fields that cert-manager sets."""
import pathlib
import subprocess
import tempfile

DRIVER = "csi.cert-manager.io"
VARIABLES = {"POD_NAME": "metadata.name", "POD_NAMESPACE": "metadata.namespace", "POD_UID": "metadata.uid"}
USAGES = {"server auth": "serverAuth", "client auth": "clientAuth"}
NEW_KEY = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]


def openssl(*words, folder):
    subprocess.run(["openssl", *words], cwd=folder, check=True, capture_output=True, timeout=30)


def authority(name):
    """Returns the Secret of a new authority."""
    with tempfile.TemporaryDirectory() as folder:
        openssl("req", "-x509", *NEW_KEY, "-subj", f"/CN={name}", "-days", "3650", "-keyout", "tls.key", "-out", "tls.crt", folder=folder)
        files = {name: (pathlib.Path(folder) / name).read_bytes() for name in ("tls.crt", "tls.key")}
    return {**files, "ca.crt": files["tls.crt"]}


def certificate(signer, uris, dns_names, usages):
    """Returns the Secret of a certificate that has no subject, which makes its alternative names critical."""
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "ca.crt").write_bytes(signer["tls.crt"])
        (folder / "ca.key").write_bytes(signer["tls.key"])
        names = ",".join([f"URI:{uri}" for uri in uris] + [f"DNS:{dns}" for dns in dns_names])
        purposes = ",".join(USAGES[usage] for usage in usages if usage in USAGES)
        (folder / "extensions").write_text(f"subjectAltName=critical,{names}\nkeyUsage=critical,digitalSignature\n"
                                           f"extendedKeyUsage={purposes}\nbasicConstraints=critical,CA:FALSE\n")
        openssl("req", "-new", *NEW_KEY, "-subj", "/", "-keyout", "tls.key", "-out", "request", folder=folder)
        openssl("x509", "-req", "-in", "request", "-CA", "ca.crt", "-CAkey", "ca.key", "-CAcreateserial", "-days", "90", "-extfile", "extensions",
                "-out", "tls.crt", folder=folder)
        return {"ca.crt": signer["tls.crt"], **{file: (folder / file).read_bytes() for file in ("tls.crt", "tls.key")}}


class CertManager:
    def __init__(self, secrets):
        self.secrets = secrets  # (namespace, name) -> files
        self.issuers = {}       # (namespace, name) -> spec

    def apply(self, thing):
        namespace, spec = thing["metadata"]["namespace"], thing["spec"]
        if thing["kind"] == "Issuer":
            self.issuers[(namespace, thing["metadata"]["name"])] = spec
            return
        key = (namespace, spec["secretName"])
        if key not in self.secrets:
            self.secrets[key] = authority(spec["commonName"]) if "selfSigned" in self.issuers[(namespace, spec["issuerRef"]["name"])] else \
                certificate(self.signer(namespace, spec["issuerRef"]["name"]), spec["uris"], spec["dnsNames"], spec["usages"])

    def signer(self, namespace, issuer):
        return self.secrets[(namespace, self.issuers[(namespace, issuer)]["ca"]["secretName"])]

    def volume(self, attributes, pod):
        """Acts as the CSI driver: returns the files of a pod's volume."""
        given = {key.removeprefix(f"{DRIVER}/"): value for key, value in attributes.items()}

        def names(key):
            text = given.get(key, "")
            for variable, field in VARIABLES.items():
                text = text.replace(f"${{{variable}}}", pod.field(field))
            if "$" in text:
                raise ValueError(f"{key}: the driver does not know a variable of {text}")
            return [name.strip() for name in text.split(",") if name]
        return certificate(self.signer(pod.namespace, given["issuer-name"]), names("uri-sans"), names("dns-names"), names("key-usages"))
