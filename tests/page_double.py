"""A stand-in for the server, for what a real one does not do on demand: refusals, lost connections, answers full of markup.

It serves the page from the source tree under the server's own Content-Security-Policy and plays scripted answers: the last
user message of a request names the script (SCRIPTS).
"""
import http.server
import json
import os
import socket
import sys
import threading
import time

FILES = {"/": "index.html", "/favicon.svg": "favicon.svg", "/style.css": "style.css"}
TYPES = {".html": "text/html; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8",
         ".svg": "image/svg+xml"}
POLICY = ("default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
          "require-trusted-types-for 'script'; trusted-types 'none'")  # src/server/page.h
KEY = "open sesame"

MARKUP = """<script>document.title = "taken"</script><img src=x onerror="document.title = 'taken'">

# A heading <b>not bold</b>

Some **bold**, *italic* and `code <i>` text, 2 * 3 * 4, snake_case_name and [a link](https://example.org/a_b) but
[no script](javascript:alert(1)).

1. First, with code:
   ```python
   print("<script>")  # **not bold**
   ```
2. Second
   - inner one
   - inner *two*

> Quoted **words**

| Name | Value |
|------|-------|
| a    | `1`   |
| b    | <u>2</u> |

```html
<script>document.title = "taken"</script>
```
"""

STATUS = {
    "model": "evros-tiny", "identity": "e7a1b2c3d4e5f60718293a4b5c6d7e8f", "numerics": "N1/kv=f16,ix=f32", "kernels": "avx512",
    "device": "cpu", "threads": 2, "context": 8192, "uptime_s": 3723.4, "healthy": True, "draining": False,
    "slots": {"total": 8, "used": 5, "kept": 3},
    "banks": {"total": 12, "used": 7}, "pages": {"total": 2048, "used": 312, "tokens_per_page": 64},
    "queue": {"waiting": 1, "running": 2, "limit": 64},
    "sequences": [
        {"id": 1, "state": "decode", "request": 41, "choice": 0, "tokens": 812, "target": 2048, "idle_s": 0},
        {"id": 2, "state": "prefill", "request": 42, "choice": 0, "tokens": 3072, "target": 7000, "idle_s": 0},
        {"id": 3, "state": "kept", "request": 0, "choice": 0, "tokens": 644, "target": 644, "idle_s": 12.25},
        {"id": 4, "state": "kept", "request": 0, "choice": 0, "tokens": 120, "target": 120, "idle_s": 340.5},
        {"id": 5, "state": "kept", "request": 0, "choice": 0, "tokens": 4411, "target": 4411, "idle_s": 4000}],
    "totals": {"requests": 42, "done": 38, "failed": 1, "cancelled": 1, "refused": 3, "prompt_tokens": 61234,
               "reused_tokens": 48700, "drawn_tokens": 0, "chunks": 20111},
    "http": {"connections": 4, "exchanges": 3}}


def refuse(status, sentence, **headers):
    def play(exchange):
        exchange.answer(status, {"error": {"message": sentence, "type": "error", "code": None}}, headers)
    return play


def words(text, thought="", pause=0.0, cut=False, error=None, finish="stop"):
    """Streams `thought` and `text` word by word; `cut` leaves out the end of the stream."""
    def play(exchange):
        exchange.begin_stream()
        for field, said in (("reasoning_content", thought), ("content", text)):
            for piece in said.replace(" ", "\0 ").split("\0") if said else ():
                exchange.chunk({"choices": [{"index": 0, "delta": {field: piece}, "finish_reason": None}]})
                time.sleep(pause)
        if error:
            exchange.chunk({"error": {"message": error}})
            exchange.send(b"")
        if cut:
            exchange.close_connection = True
        if cut or error:
            return
        exchange.chunk({"choices": [{"index": 0, "delta": {}, "finish_reason": finish}]})
        exchange.chunk({"choices": [], "usage": {
            "prompt_tokens": 214, "completion_tokens": 96, "total_tokens": 310,
            "prompt_tokens_details": {"cached_tokens": 180}, "completion_tokens_details": {"reasoning_tokens": 31},
            "evros": {"reused_tokens": 180, "new_tokens": 34, "diverged_at": 187, "ttft_ms": 182.4, "tokens_per_second": 41.27}}})
        exchange.send(b"data: [DONE]\n\n")
        exchange.send(b"")
    return play


def needs_key(exchange):
    if exchange.headers.get("Authorization") == "Bearer " + KEY:
        words("You are in.")(exchange)
    else:
        exchange.answer(401, {"error": {"message": "This server wants a key.", "type": "authentication_error"}}, {})


def silent(exchange):
    """A long prompt: nothing comes until the client leaves."""
    exchange.begin_stream()
    if not exchange.connection.recv(1):
        raise ConnectionResetError


SCRIPTS = {
    "markup": words(MARKUP),
    "busy": refuse(429, "64 requests wait already; the limit is 64.", **{"Retry-After": "7"}),
    "memory": refuse(507, "This needs 900 pages of 512."),
    "stopping": refuse(503, "The server is shutting down."),
    "senseless": refuse(400, "top_p is 7; it is between 0 and 1."),
    "lost": words("This sentence has no", pause=0.03, cut=True),
    "poisoned": words("It began", error="a value was not finite"),
    "key": needs_key,
    "silent": silent,
    "think": words("The answer is **four**.", thought="Two and two. " * 10, pause=0.04),
    "long": words("\n\n".join(f"Paragraph {i} of a long answer that goes on." for i in range(60)), pause=0.005),
    "endless": words("word " * 5000, pause=0.005),
}


class Exchange(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *arguments):
        pass

    def answer(self, status, body, headers, content_type="application/json"):
        body = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        for name, value in {**headers, "Content-Type": content_type, "Content-Length": str(len(body)),
                            "Content-Security-Policy": POLICY, "X-Content-Type-Options": "nosniff"}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def begin_stream(self):
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()

    def send(self, data):
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.wfile.flush()

    def chunk(self, value):
        self.send(b"data: " + json.dumps(value).encode() + b"\n\n")

    def do_GET(self):
        name = FILES.get(self.path, self.path[1:] if self.path.endswith(".js") and "/" not in self.path[1:] else None)
        path = os.path.join(self.server.assets, name) if name else None
        if path and os.path.isfile(path):
            with open(path, "rb") as file:
                self.answer(200, file.read(), {}, TYPES[os.path.splitext(path)[1]])
        elif self.path == "/v1/models":
            self.answer(200, {"object": "list", "data": [{"id": "evros-tiny", "object": "model"}]}, {})
        elif self.path == "/status":
            self.server.polls += 1
            status = json.loads(json.dumps(STATUS))
            status["totals"]["drawn_tokens"] = 9000 + 37 * self.server.polls + 11 * (self.server.polls % 3)
            self.answer(200, status, {})
        else:
            self.answer(404, {"error": {"message": "no such path"}}, {})

    def do_POST(self):
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.requests.append(request)
        try:
            SCRIPTS.get(request["messages"][-1]["content"], words("An answer in a few words."))(self)
        except (BrokenPipeError, ConnectionResetError):
            self.server.left += 1
            self.close_connection = True


class Double(http.server.ThreadingHTTPServer):
    """Listens on a free port of this machine until close(). `requests`: the bodies that came; `left`: clients that went away
    in the middle of an answer; `polls`: how often /status was asked for."""
    daemon_threads = True

    def __init__(self, assets):
        super().__init__(("127.0.0.1", 0), Exchange)
        self.assets, self.requests, self.left, self.polls, self.open = assets, [], 0, 0, []
        self.url = f"http://127.0.0.1:{self.server_port}/"
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def process_request(self, request, client_address):
        self.open.append(request)
        super().process_request(request, client_address)

    def handle_error(self, request, client_address):
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)

    def close(self):
        self.shutdown()
        self.server_close()
        for connection in self.open:
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass  # closed already
