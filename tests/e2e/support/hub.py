"""A stand-in, on loopback, for a hub that models and data sets are fetched from."""
import hashlib
import http.server
import json
import threading
import time
import urllib.parse

COMMIT = "0123456789abcdef0123456789abcdef01234567"


class Hub:
    """The API and small files on one port, large files on another, as the real one has them on another host. `faults`
    are taken from the front, one a request for a large file: ("cut", bytes), ("wrong",), ("status", code), ("slow",),
    ("endless",): on and on behind the end. `odd`, when set, sees each request first, and returns True when it answered."""

    def __init__(self, files, name, *large, kind="models", commit=COMMIT):
        self.files, self.listing, self.ranges = files, sorted(files), True
        self.name, self.large, self.kind, self.commit = name, large, kind, commit
        self.faults, self.requests, self.api_status, self.odd = [], [], 200, None
        self.servers = [self.serve(self.answer_hub), self.serve(self.answer_store)]
        self.url, self.store = (f"http://127.0.0.1:{server.server_port}" for server in self.servers)

    def serve(self, answer):
        hub = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                if not (hub.odd and hub.odd(self)):
                    answer(self)

            def log_message(self, *_):
                pass
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        server.daemon_threads = True
        server.handle_error = lambda *_: None  # a client that hangs up early
        threading.Thread(target=server.serve_forever, daemon=True).start()
        return server

    def close(self):
        for server in self.servers:
            server.shutdown()
            server.server_close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def note(self, where, request):
        self.requests.append((where, request.path, request.headers.get("Range"), request.headers.get("Authorization")))

    @staticmethod
    def send(request, status, body=b"", **headers):
        request.send_response(status)
        for name, value in headers.items():
            request.send_header(name.replace("_", "-"), value)
        if "Content_Length" not in headers:
            request.send_header("Content-Length", str(len(body)))
        request.end_headers()
        request.wfile.write(body)
        return True

    def answer_hub(self, request):
        self.note("hub", request)
        if request.path in [f"/api/{self.kind}/{self.name}/revision/{revision}?blobs=true" for revision in ("main", self.commit)]:
            siblings = [{"rfilename": name, **({"size": len(self.files[name])} if name in self.files else {})}
                        for name in self.listing]
            return self.send(request, self.api_status, json.dumps({"sha": self.commit, "siblings": siblings}).encode())
        before = f"/{'datasets/' if self.kind == 'datasets' else ''}{self.name}/resolve/{self.commit}/"
        name = urllib.parse.unquote(request.path[len(before):])
        if not request.path.startswith(before) or name not in self.files:
            return self.send(request, 404, b"Entry not found")
        if name in self.large:
            return self.send(request, 302, Location=f"{self.store}/{urllib.parse.quote(name)}", ETag='"not-a-checksum"',
                             X_Linked_Etag=f'"{hashlib.sha256(self.files[name]).hexdigest()}"')
        return self.send(request, 200, self.files[name], ETag='"abcdef"')

    def answer_store(self, request):
        self.note("store", request)
        fault = self.faults.pop(0) if self.faults else ("none",)
        data, first = self.files[urllib.parse.unquote(request.path[1:])], 0
        if fault[0] == "status":
            return self.send(request, fault[1], b"trouble")
        if fault[0] == "wrong":
            data = bytes([data[0] ^ 1]) + data[1:]
        asked = request.headers.get("Range")
        if asked and self.ranges:
            first = int(asked[len("bytes="):].split("-")[0])
        request.send_response(206 if first else 200)
        if fault[0] != "endless":
            request.send_header("Content-Length", str(len(data) - first))
        if first:
            request.send_header("Content-Range", f"bytes {first}-{len(data) - 1}/{len(data)}")
        request.end_headers()
        part = data[first:first + fault[1]] if fault[0] == "cut" else data[first:]
        if fault[0] == "slow":  # some of it, then nothing for long
            request.wfile.write(part[:5000])
            request.wfile.flush()
            time.sleep(30)
        else:
            request.wfile.write(part)
        try:
            while fault[0] == "endless":
                request.wfile.write(bytes(1 << 16))
        except OSError:
            pass
        request.close_connection = True

    def of_large(self):
        return [one for one in self.requests if one[0] == "store"]
