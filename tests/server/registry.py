"""A registry on this machine, as models are pulled from, with faults that can be switched on."""
import base64
import hashlib
import http.server
import json
import re
import ssl
import threading
import urllib.parse


class Registry:
    def __init__(self, certificate=None):
        """certificate: files of a certificate and its key, for https."""
        self.blobs, self.manifests = {}, {}
        self.requests = []      # (path, Range header)
        self.cut = {}           # digest -> bytes after which the connection breaks, each time
        self.cuts_left = 0
        self.ranges = True
        self.redirect = False
        self.login = None       # (user, password)
        self.scheme = "Bearer"  # what it asks for then, or Basic
        self.realm = None       # where tokens come from; else here
        self.tokens = []        # those given out
        self.wait = threading.Event()  # set: bodies go on
        self.wait.set()
        owner = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def do_GET(self):
                owner.answer(self)

        self.http = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.http.daemon_threads = True
        if certificate:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*certificate)
            self.http.socket = context.wrap_socket(self.http.socket, server_side=True, do_handshake_on_connect=False)
        self.url = ("https" if certificate else "http") + f"://127.0.0.1:{self.http.server_address[1]}"
        self.host = f"127.0.0.1:{self.http.server_address[1]}"
        threading.Thread(target=self.http.serve_forever, daemon=True).start()

    def add(self, name, layers):
        """name: space/model:tag; layers: (kind, content). Gives the digests."""
        config = json.dumps({"model_format": "gguf", "model_family": "qwen3", "model_families": ["qwen3"],
                             "model_type": "147.02K", "file_type": "F32"}).encode()
        entries, digests = [], []
        for kind, content in [*layers, (None, config)]:
            digest = hashlib.sha256(content).hexdigest()
            self.blobs[digest] = content
            digests.append(digest)
            entries.append({"mediaType": f"application/vnd.ollama.image.{kind}", "digest": "sha256:" + digest,
                            "size": len(content)})
        config_entry = {**entries.pop(), "mediaType": "application/vnd.docker.container.image.v1+json"}
        manifest = json.dumps({"schemaVersion": 2, "layers": entries, "config": config_entry}).encode()
        path, tag = name.split(":")
        self.manifests[f"/v2/{path}/manifests/{tag}"] = manifest
        return digests

    def answer(self, request):
        self.requests.append((request.path, request.headers.get("Range")))
        given = request.headers.get("Authorization")
        known = self.login and given == "Basic " + base64.b64encode(":".join(self.login).encode()).decode()
        if request.path.startswith("/token?"):
            asked = urllib.parse.parse_qs(request.path.split("?")[1])
            if not known or asked != {"service": ["models"], "scope": ["repository:a/b:pull"]}:
                return self.send(request, 401, b"{}")
            self.tokens.append(f"t{len(self.tokens)}")
            return self.send(request, 200, json.dumps({"token": self.tokens[-1]}).encode())
        if self.login and request.path.startswith("/v2/") and not (
                known if self.scheme == "Basic" else (given or "")[7:] in self.tokens):
            request.send_response(401)
            realm = self.realm or self.url + "/token"
            request.send_header("WWW-Authenticate", 'Basic realm="models"' if self.scheme == "Basic" else
                                f'Bearer realm="{realm}",service="models",scope="repository:a/b:pull"')
            request.send_header("Content-Length", "0")
            request.end_headers()
            return None
        if request.path.startswith("/elsewhere") and given:
            return self.send(request, 400, b"")  # a login went where it does not belong
        if request.path in self.manifests:
            return self.send(request, 200, self.manifests[request.path])
        if self.redirect and request.path.startswith("/v2/"):
            request.send_response(307)
            request.send_header("Location", f"http://{self.host}/elsewhere" + request.path)
            request.send_header("Content-Length", "0")
            request.end_headers()
            return None
        match = re.search(r"/blobs/sha256:([0-9a-f]{64})$", request.path)
        if not match or match[1] not in self.blobs:
            return self.send(request, 404, b'{"errors":[{"code":"MANIFEST_UNKNOWN"}]}')
        content = self.blobs[match[1]]
        wanted = re.match(r"bytes=(\d+)-", request.headers.get("Range") or "")
        if wanted and self.ranges:
            return self.send(request, 206, content, int(wanted[1]), match[1])
        return self.send(request, 200, content, 0, match[1])

    def send(self, request, status, content, start=0, digest=None):
        body = content[start:]
        request.send_response(status)
        request.send_header("Content-Length", str(len(body)))
        if status == 206:
            request.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
        request.end_headers()
        if digest in self.cut and self.cuts_left > 0:
            self.cuts_left -= 1
            body = body[:self.cut[digest]]
            request.close_connection = True
        request.wfile.write(body[:1000])
        request.wfile.flush()
        self.wait.wait(60)
        try:
            for at in range(1000, len(body), 10000):
                request.wfile.write(body[at:at + 10000])
                request.wfile.flush()
        except OSError:
            request.close_connection = True
            return
        if request.close_connection:
            request.connection.close()
