"""A small server that answers as Ollama does, over HTTP on a free loopback port, with faults to order.

It knows what the project asks of Ollama: version, tags, show, create with `from`, copy, delete, load and unload, push,
chat with `_debug_render_only`, rendered by the project's own engine, and raw prompts, which a cache of one slot reads:
a token is four bytes, and what opens the prompt before is kept. It generates nothing.
"""

from __future__ import annotations

import datetime
import json
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

from support.ollama_store import KIND, Model, ModelStore, full_name, shortest
from support.quiet_http import QuietHTTPServer
from support.registry_server import RegistryServer

from templatefix.chat.jinja import JinjaChatTemplate
from templatefix.chat.rendering import RenderError
from templatefix.chat.request import Request

JSON = "application/json; charset=utf-8"
BARE_JSON = "application/json"
LINES = "application/x-ndjson"
THINK = {True: "medium", False: ""}


@dataclass
class Faults:
    """What the server should do wrong."""

    create_error: str = ""  # an error line in mid-stream, and nothing made
    create_garbage: bytes = b""  # a line in mid-stream that is not JSON
    create_cut: str = ""  # "before" or "after" the manifest is written, the connection breaks
    create_short: bool = False  # the stream ends without a word, and nothing made
    statuses: list[str] = field(default_factory=list)  # more lines of status in create's stream
    after_create: Callable[[ModelStore, str], None] | None = None  # changes the store once a tag is made
    render: Callable[[str], str] | None = None  # changes what `_debug_render_only` tells
    push_error: str = ""  # an error line in mid-stream
    push_cut: bool = False  # the connection breaks in mid-push
    dies_after: int = -1  # raw prompts, and then every connection breaks
    no_cache: bool = False  # nothing is kept
    deaf: bool = False  # no call is read out of an answer
    log_lines: list[str] = field(default_factory=list)  # written to the log before the next prompt's own lines
    answers: dict[str, tuple[int, str, bytes]] = field(default_factory=dict)  # path -> an answer to give instead
    silent: set[str] = field(default_factory=set)  # paths that never get an answer
    down: set[str] = field(default_factory=set)  # paths whose connection breaks at once


class OllamaServer:
    """The server; `requests` holds what was asked of it: method, path and body."""

    def __init__(self, root: Path, version: str = "0.0.0") -> None:
        self.store = ModelStore(root)
        self.version = version
        self.faults = Faults()
        self.requests: list[tuple[str, str, Any]] = []
        self.stopping = threading.Event()
        self.loaded: dict[str, int] = {}  # name -> tokens of context
        self.context = 100_000  # tokens, unless a request says otherwise
        self.caches: dict[str, bytes] = {}  # digest of the weights -> the prompt before
        self.tells_cached = False  # whether answers have `prompt_eval_cached_count`
        self.log: Path | None = None  # where the engine writes its lines
        self.registries: dict[str, RegistryServer] = {}  # host -> where a push goes
        self.read = 0  # raw prompts
        self._http = QuietHTTPServer(("127.0.0.1", 0), _handler(self))
        self._http.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._http.server_address[1]}"

    @contextmanager
    def running(self) -> Iterator[OllamaServer]:
        thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        try:
            yield self
        finally:
            self.stopping.set()
            self._http.shutdown()
            self._http.server_close()
            thread.join()

    def asked(self, path: str) -> list[Any]:
        """The bodies of all requests to a path."""
        return [body for _, where, body in self.requests if where == path]


def shown(model: Model, store: ModelStore, verbose: bool) -> dict[str, Any]:
    """The answer of `/api/show`."""
    info = dict(model.weights.get("model_info", {}))
    if not verbose:
        info = {key: None if isinstance(value, list) else value for key, value in info.items()}
    answer = {
        "system": model.texts.get("system"),
        "modelfile": _modelfile(model, store),
        "parameters": "\n".join(f"{key:<30} {_go_syntax(value)}" for key, value in model.parameters),
        "template": model.jinja or model.template,
        "details": model.details,
        "messages": model.messages,
        "model_info": info,
        "capabilities": model.capabilities,
        "modified_at": model.modified,
    }
    return {key: value for key, value in answer.items() if value or key in ("template", "details", "model_info")}


def _modelfile(model: Model, store: ModelStore) -> str:
    weights = next(layer for layer in model.manifest["layers"] if layer["mediaType"] == KIND + "model")
    lines = [
        '# Modelfile generated by "ollama show"',
        "# To build a new Modelfile based on this, replace FROM with:",
        f"# FROM {shortest(model.name)}",
        "",
        f"FROM {store.root / 'blobs' / weights['digest'].replace(':', '-')}",
        f"TEMPLATE {_quoted(model.template)}",
        *([f"SYSTEM {_quoted(model.texts['system'])}"] if "system" in model.texts else []),
        *[f"{key.upper()} {model.config[key]}" for key in ("renderer", "parser") if model.config.get(key)],
        *[f"PARAMETER {key} {_quoted(str(value))}" for key, value in model.parameters],
        *[f"MESSAGE {message['role']} {_quoted(message['content'])}" for message in model.messages],
    ]
    return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    if "\n" not in text and text.strip(" ") == text:
        return text
    quote = '"""' if '"' in text else '"'
    return f"{quote}{text}{quote}"


def _go_syntax(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def rendered(model: Model, body: dict[str, Any]) -> str:
    """The prompt of a chat request; raises RenderError."""
    messages = [*model.messages, *body["messages"]]
    if model.texts.get("system") and body["messages"][0].get("role") != "system":
        messages.insert(0, {"role": "system", "content": model.texts["system"]})
    if model.config.get("renderer"):
        kind = model.config["renderer"]
        return "".join(f"<{kind}:{message['role']}>{message.get('content', '')}" for message in messages)
    if model.name[2] == "deepseek-r1" or model.config["model_family"] == "qwen3":
        last = max(index for index, message in enumerate(messages) if message["role"] == "user")
        messages = [_forgotten(message) if index < last else message for index, message in enumerate(messages)]
    think = body.get("think")
    if think is None and "thinking" in model.capabilities:
        think = True
    if model.jinja:
        return jinja_rendered(model, messages, body.get("tools") or [], think)
    level = think if isinstance(think, str) else THINK.get(think, "")
    on = None if think is None else bool(think)
    return model.go.render(Request(tuple(messages), tuple(body.get("tools") or ()), on, level)).text


def jinja_rendered(model: Model, messages: list[dict[str, Any]], tools: list[dict[str, Any]], think: Any) -> str:
    """A prompt by a Jinja text, as the server hands a request on to its engine.

    No thinking of the past reaches it, the tools come in the server's own order, and the arguments of calls as text.
    """
    told = [{key: value for key, value in message.items() if key != "thinking"} for message in messages]
    for message in told:
        if message.get("tool_calls"):
            message["tool_calls"] = [_handed_on(call) for call in message["tool_calls"]]
    for tool in tools:
        given = tool["function"]["parameters"]
        ordered = {key: given[key] for key in ("type", "required", "properties") if key in given}
        tool["function"] = {**tool["function"], "parameters": ordered}
    info = model.weights.get("model_info", {})
    tokens = info.get("tokenizer.ggml.tokens", [])
    bos, eos = (tokens[info[f"tokenizer.ggml.{key}_token_id"]] if tokens else "" for key in ("bos", "eos"))
    on = None if think is None else bool(think)
    return JinjaChatTemplate(model.jinja, bos=bos, eos=eos).render(Request(tuple(told), tuple(tools), on)).text


def _handed_on(call: dict[str, Any]) -> dict[str, Any]:
    function = call["function"]
    written = {key: json.dumps(value, sort_keys=True) for key, value in function["arguments"].items()}
    within = {key: json.loads(value, parse_float=_as_go_writes) for key, value in written.items()}
    text = json.dumps(within, separators=(",", ":"), ensure_ascii=False)
    return {**call, "function": {**function, "arguments": text}}


def _as_go_writes(number: str) -> int | float:
    value = float(number)
    return int(value) if value.is_integer() else value


def _forgotten(message: dict[str, Any]) -> dict[str, Any]:
    if message["role"] != "assistant":
        return message
    return {**message, "content": re.sub(r"^\s*<think>(.*?</think>\s*|.*)", "", message["content"], flags=re.DOTALL)}


def _handler(server: OllamaServer) -> type[BaseHTTPRequestHandler]:
    class Handler(_Handler):
        owner = server

    return Handler


class _Handler(BaseHTTPRequestHandler):
    owner: OllamaServer
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def do_GET(self) -> None:
        self._serve({"/api/version": self._version, "/api/tags": self._tags, "/api/ps": self._ps})

    def do_DELETE(self) -> None:
        self._serve({"/api/delete": self._delete})

    def do_POST(self) -> None:
        routes = {"/api/show": self._show, "/api/create": self._create, "/api/copy": self._copy}
        more = {"/api/chat": self._chat, "/api/generate": self._generate, "/api/push": self._push}
        self._serve({**routes, **more})

    def _serve(self, routes: dict[str, Callable[[dict[str, Any]], None]]) -> None:
        faults = self.owner.faults
        text = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        body = json.loads(text) if text else {}
        self.owner.requests.append((self.command, self.path, body))
        if self.path in faults.silent:
            self.owner.stopping.wait()
        dead = 0 <= faults.dies_after < self.owner.read
        if dead or self.path in faults.silent or self.path in faults.down:
            return self._break()
        if self.path in faults.answers:
            return self._send(*faults.answers[self.path])
        if self.path not in routes:
            return self._send(404, "text/plain", b"404 page not found")
        routes[self.path](body)

    def _break(self) -> None:
        self.close_connection = True
        self.connection.close()

    def _send(self, status: int, kind: str, data: bytes) -> None:
        self.send_response(status)
        if kind:
            self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _json(self, value: Any, status: int = 200, kind: str = JSON) -> None:
        self._send(status, kind, json.dumps(value, ensure_ascii=False).encode())

    def _error(self, sentence: str, status: int, kind: str = JSON) -> None:
        self._json({"error": sentence}, status, kind)

    def _version(self, _body: dict[str, Any]) -> None:
        self._json({"version": self.owner.version})

    def _tags(self, _body: dict[str, Any]) -> None:
        rows = []
        for model in self.owner.store.all():
            info = model.weights.get("model_info", {})
            extra = {
                "context_length": info.get("llama.context_length", 131072),
                "embedding_length": info.get("llama.embedding_length", 64),
            }
            name = shortest(model.name)
            facts = {"name": name, "model": name, "modified_at": model.modified, "size": model.size}
            more = {"digest": model.digest, "details": {**model.details, **extra}, "capabilities": model.capabilities}
            rows.append({**facts, **more})
        self._json({"models": rows})

    def _show(self, body: dict[str, Any]) -> None:
        model = self.owner.store.read(body["model"])
        if model is None:
            return self._error(f"model '{shortest(full_name(body['model']))}' not found", 404)
        self._json(shown(model, self.owner.store, bool(body.get("verbose"))))

    def _delete(self, body: dict[str, Any]) -> None:
        if not self.owner.store.delete(body["model"]):
            return self._error(f"model '{body['model']}' not found", 404)
        self._send(200, "", b"")

    def _copy(self, body: dict[str, Any]) -> None:
        if not self.owner.store.copy(body["source"], body["destination"]):
            return self._error(f'model "{body["source"]}" not found', 404)
        self._send(200, "", b"")

    def _create(self, body: dict[str, Any]) -> None:
        store, faults = self.owner.store, self.owner.faults
        try:
            name, base = shortest(full_name(body["model"])), store.read(body["from"])
        except ValueError as error:
            return self._error(str(error), 400)
        if base is None:
            host, namespace, model, tag = full_name(body["from"])
            url = f"https://{host}/v2/{namespace}/{model}/manifests/{tag}"
            store.blob("template", (body.get("template") or "").encode())  # the real one leaves it behind as well
            error = f'pull model manifest: Get "{url}": dial tcp: lookup {host}: no such host'
            return self._stream([{"status": "pulling manifest"}, {"error": error}])
        if faults.create_error:
            return self._stream([{"status": "writing manifest"}, {"error": faults.create_error}])
        if faults.create_short:
            return self._stream([{"status": "writing manifest"}])
        if faults.create_cut == "before":
            return self._stream([{"status": "writing manifest"}], cut=True)
        try:
            statuses = store.derive(name, base, body)
        except ValueError as error:
            return self._error(str(error), 400, BARE_JSON)
        if faults.after_create is not None:
            faults.after_create(store, name)
        if body.get("stream") is False:
            return self._json({"status": "success"}, kind=BARE_JSON)
        lines = [{"status": status} for status in (*statuses, *faults.statuses, "writing manifest", "success")]
        if faults.create_cut == "after":
            return self._stream(lines[:-1], cut=True)
        self._stream(lines, faults.create_garbage)

    def _stream(self, lines: list[dict[str, Any]], garbage: bytes = b"", cut: bool = False) -> None:
        self.send_response(200)
        self.send_header("Content-Type", LINES)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for line in ([garbage] if garbage else []) + [json.dumps(line).encode() for line in lines]:
            self.wfile.write(b"%x\r\n%s\n\r\n" % (len(line) + 1, line))
        if cut:
            return self._break()
        self.wfile.write(b"0\r\n\r\n")

    def _chat(self, body: dict[str, Any]) -> None:
        model = self.owner.store.read(body["model"])
        if model is None:
            return self._error(f"model '{body['model']}' not found", 404)
        if not body["messages"]:
            reason = "unload" if body.get("keep_alive") == 0 else "load"
            for other in self.owner.store.all():  # tags on the same weights share one engine
                if _weights(other) == _weights(model):
                    self.owner.loaded.pop(shortest(other.name), None)
            self.owner.caches.pop(_weights(model), None)
            if reason == "load":
                context = (body.get("options") or {}).get("num_ctx", self.owner.context)
                self.owner.loaded[shortest(model.name)] = context
            empty = {"role": "assistant", "content": ""}
            return self._json({**_head(body), "message": empty, "done": True, "done_reason": reason})
        if body.get("think") and "thinking" not in model.capabilities:
            return self._error(f'"{body["model"]}" does not support thinking', 400)
        if body.get("tools") and "tools" not in model.capabilities:
            host, namespace, name, tag = model.name
            return self._error(f"{host}/{namespace}/{name}:{tag} does not support tools", 400)
        if body.get("format"):
            bound = {key: value["const"] for key, value in body["format"]["properties"].items()}
            call = {"id": "call_1", "function": {"name": bound["name"], "arguments": bound["parameters"]}}
            read = not self.owner.faults.deaf and model.go.derived.tool_tag == "{"
            message = {"role": "assistant", "content": "", "tool_calls": [call]} if read else {"content": str(bound)}
            return self._json({**_head(body), "message": message, "done": True})
        if not body.get("_debug_render_only"):
            return self._error("this test server does not generate", 501)
        self.owner.loaded.setdefault(shortest(model.name), self.owner.context)
        try:
            text = rendered(model, body)
        except RenderError as error:
            return self._error(str(error), 500)
        if self.owner.faults.render is not None:
            text = self.owner.faults.render(text)
        told = {"message": {"role": "", "content": ""}, "done": False}
        self._json({**_head(body), **told, "_debug_info": {"rendered_template": text}})

    def _ps(self, _body: dict[str, Any]) -> None:
        rows = [{"name": name, "model": name, "context_length": size} for name, size in self.owner.loaded.items()]
        self._json({"models": rows})

    def _generate(self, body: dict[str, Any]) -> None:
        owner = self.owner
        model = owner.store.read(body["model"])
        if model is None:
            return self._error(f"model '{body['model']}' not found", 404)
        owner.read += 1
        if 0 <= owner.faults.dies_after < owner.read:
            return self._break()
        prompt = body["prompt"].encode()
        before = b"" if owner.faults.no_cache else owner.caches.get(_weights(model), b"")
        total = -(-len(prompt) // 4)
        context = (body.get("options") or {}).get("num_ctx", owner.context)
        if total > context:
            inner = {"code": 400, "message": f"request ({total} tokens) exceeds the available context size"}
            return self._error(json.dumps({"error": {**inner, "type": "exceed_context_size_error"}}), 400)
        differs = [one != other for one, other in zip(prompt, before, strict=False)]
        alike = differs.index(True) if True in differs else len(differs)
        cached = min(alike // 4, total - 1)
        owner.caches[_weights(model)] = prompt
        self._write_log(total, cached)
        counts = {"prompt_eval_count": total, "prompt_eval_duration": (total - cached) * 1_000_000}
        if owner.tells_cached:
            counts["prompt_eval_cached_count"] = cached
        self._json({**_head(body), "response": "x", "done": True, "done_reason": "length", **counts})

    def _write_log(self, total: int, cached: int) -> None:
        if self.owner.log is None:
            return
        place = f"slot   operator(): id  0 | task {self.owner.read} | "
        lines = [
            *self.owner.faults.log_lines,
            f"{place}new prompt, n_ctx_slot = 1, n_keep = 0, task.n_tokens = {total}",
            f"{place}cached n_tokens = {cached}, memory_seq_rm [{cached}, end)",
            f"{place}stop processing: n_tokens = {total}, truncated = 0",
        ]
        self.owner.faults.log_lines = []
        with self.owner.log.open("a") as file:
            file.write("".join(f"{line}\n" for line in lines))

    def _push(self, body: dict[str, Any]) -> None:
        owner = self.owner
        begin: list[dict[str, Any]] = [{"status": "retrieving manifest"}]
        model = owner.store.read(body["model"])
        if model is None:
            lost = {"error": f"open {owner.store.root}/manifests/…: no such file or directory"}
            return self._stream([*begin, {"status": "couldn't retrieve manifest"}, lost])
        host = model.name[0]
        if not body.get("insecure"):
            url = f"https://{host}/v2/{model.name[1]}/{model.name[2]}/blobs/x"
            said = f'Head "{url}": http: server gave HTTP response to HTTPS client'
            return self._stream([*begin, {"error": said}])
        if owner.faults.push_error:
            return self._stream([*begin, {"error": owner.faults.push_error}])
        for layer in model.manifest["layers"]:
            short, size = layer["digest"][7:19], layer["size"]
            row = {"status": f"pushing {short}", "digest": layer["digest"], "total": size}
            begin += [{**row, "completed": size // 2}, {**row, "completed": size}]
        if owner.faults.push_cut:
            return self._stream(begin, cut=True)
        owner.registries[host].take(owner.store, model)
        self._stream([*begin, {"status": "pushing manifest"}, {"status": "success"}])


def _weights(model: Model) -> str:
    return str(next(layer["digest"] for layer in model.manifest["layers"] if layer["mediaType"] == KIND + "model"))


def _head(body: dict[str, Any]) -> dict[str, Any]:
    now = datetime.datetime.now(datetime.timezone.utc).isoformat().replace("+00:00", "Z")
    return {"model": body["model"], "created_at": now}
