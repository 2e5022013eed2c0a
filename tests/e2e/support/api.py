"""What the tests of the API share: the server before a pretended daemon, a client, and the reporting of cases."""
import http.client
import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile

from megatraind import BUILD, SANITIZED, SLOWNESS, case, equal, run_cases  # noqa: F401  (tests take them from here)

UNKNOWN_ID = "01ARZ3NDEKTSV4RRFFQ69G5FAV"


class Answer:
    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body

    @property
    def json(self):
        return json.loads(self.body)

    def problem(self, status):
        """The problem document, checked for what every one has."""
        equal(self.status, status)
        equal(self.headers.get("Content-Type"), "application/problem+json")
        document = self.json
        equal(document["status"], status)
        assert document["title"] and document["type"].startswith("urn:megatrain:problem:"), document
        assert isinstance(document["detail"], str) and document["detail"], document
        return document


class Server:
    """The API in front of a pretended daemon, on a free port."""

    def __init__(self, *options, listen=("127.0.0.1:0",)):
        self.folder = tempfile.mkdtemp(prefix="megatrain-api-")
        listen = [address.replace("FOLDER", self.folder) for address in listen]
        self.process = subprocess.Popen(
            [os.path.join(BUILD, "tests/e2e/api_server"), self.folder, *options, *listen],
            stdout=subprocess.PIPE, text=True)
        self.addresses = []
        for line in self.process.stdout:
            if line == "ready\n":
                break
            self.addresses.append(line.strip())
        else:
            raise AssertionError(f"the server ended with {self.process.wait()}")
        self.port = next((int(a.rsplit(":", 1)[1]) for a in self.addresses if "127.0.0.1" in a), None)

    def __enter__(self):
        return self

    def __exit__(self, *fault):
        self.stop()

    def stop(self):
        """Ends it; its exit status. A server that does not end is a failure."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            status = self.process.wait(timeout=60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise
        self.process.stdout.close()
        shutil.rmtree(self.folder, ignore_errors=True)
        equal(status, 0)

    def connect(self, timeout=30):
        return socket.create_connection(("127.0.0.1", self.port), timeout=timeout)

    def ask(self, method, path, body=None, headers=None, timeout=30):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        try:
            connection.request(method, path, body=body, headers=headers or {})
            response = connection.getresponse()
            return Answer(response.status, response.headers, response.read())
        finally:
            connection.close()

    def get(self, path, **headers):
        return self.ask("GET", path, headers={k.replace("_", "-"): v for k, v in headers.items()})

    def post(self, path, document=None, headers=None):
        body = document if isinstance(document, bytes) else json.dumps(document).encode()
        return self.ask("POST", path, body, {"Content-Type": "application/json", **(headers or {})})

    def submit(self, **document):
        answer = self.post("/jobs", {"name": "a job", **document})
        equal(answer.status, 201)
        return answer.json["id"]

    def job_folder(self, job):
        return os.path.join(self.folder, "jobs", job)

    def raw(self, request, timeout=30):
        """Sends bytes, and gives back every byte that comes until the server closes."""
        with self.connect(timeout) as link:
            link.sendall(request)
            return read_all(link)


def read_all(link):
    pieces = []
    while True:
        try:
            piece = link.recv(65536)
        except ConnectionResetError:
            break
        if not piece:
            break
        pieces.append(piece)
    return b"".join(pieces)


def status_of(answer):
    """The status in the first line of raw bytes; 0 where there is none."""
    words = answer.split(b" ", 2)
    return int(words[1]) if len(words) > 2 and words[0].startswith(b"HTTP/1.") else 0
