#!/usr/bin/env python3
"""Checks the rules of CONTRIBUTING.md that a machine can check. The rules stand in layers.txt, not here.

usage: tidy.py [ROOT]. Prints one line per finding, "file:line: sentence"; exit code 1 when there is any.
"""
import os
import re
import subprocess
import sys

SOURCE = (".cc", ".h", ".cu", ".cuh")
TEXT = SOURCE + (".py", ".sh", ".txt", ".md", ".cmake", ".json", ".jinja")
LONG_FUNCTIONS = "tools/long_functions.txt"
TREES = ("src/", "sim/", "tests/", "bench/")
# Spelt so that this file does not find itself.
BANNED = [(re.compile(r"\b(TO" r"DO|FIX" r"ME|X" r"XX)\b"), "unfinished work: finish it or describe it in an issue"),
          (re.compile(r"(?<![\w.])/(work|root|home/\w+)/"), "a path of one machine"),
          (re.compile(r"-f" r"fast-math"), "re-associates (docs/numerics.md)")]  # prose may name it


class Rules:
    """layers.txt, parsed."""

    def __init__(self, text):
        self.layers, self.narrow, self.only, self.once = {}, {}, [], []
        self.file_lines, self.budget, self.public = {}, {}, []
        section = None
        for raw in text.splitlines():
            line = raw.strip()
            if not line or line.startswith("#"):
                continue
            if re.fullmatch(r"\[[\w ]+\]", line):
                section = line[1:-1]
                continue
            if section not in ("only", "once"):
                line = line.split("#")[0].strip()
            getattr(self, "read_" + section.replace(" ", "_"))(line)

    def read_layers(self, line):
        folder, allowed = line.split(":")
        self.layers[folder.strip()] = set(allowed.split()) | {folder.strip()}

    def read_narrow(self, line):
        pair, what = line.split(":")
        source, target = pair.split("->")
        words = what.split()
        self.narrow[source.strip(), target.strip()] = words

    def read_only(self, line):
        what, where, tests, pattern = (part.strip() for part in line.split("|", 3))
        scope = tests.split(" in ")[1].split() if " in " in tests else None
        self.only.append((what, [] if where == "-" else where.split(), tests.startswith("tests free"), scope, re.compile(pattern)))

    def read_once(self, line):
        path, pattern = (part.strip() for part in line.split("|", 1))
        self.once.append((path, re.compile(pattern)))

    def read_budgets(self, line):
        words = line.split()
        if words[0] == "file":
            self.file_lines[words[1] if len(words) == 3 else ""] = int(words[-1])
        else:
            self.budget[words[0]] = int(words[1])

    def read_public_headers(self, line):
        self.public.append(line)


TOKEN = re.compile(r'//[^\n]*|/\*.*?\*/|R"(?P<d>[^()\\\s]{0,16})\(.*?\)(?P=d)"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'', re.S)
INCLUDE_LINE = re.compile(r"^\s*#\s*include[^\n]*", re.M)


def blank(text):
    """The same number of lines, nothing on them."""
    return "\n" * text.count("\n")


def strip(source, strings):
    """The code without comments; with `strings`, without the content of literals too. Line numbers stay."""
    includes = {m.start(): m.end() for m in INCLUDE_LINE.finditer(source)}
    spans = sorted(includes.items())

    def replace(match):
        token = match.group()
        if token.startswith("/"):
            return blank(token) or " "
        if token.startswith("'") and match.start() and source[match.start() - 1].isalnum():
            return token  # a digit separator
        inside = any(begin <= match.start() < end for begin, end in spans)
        if not strings or inside:
            return token
        return '""' + blank(token)

    return TOKEN.sub(replace, source)


def without_preprocessor(code):
    return re.sub(r"^[ \t]*#(?:[^\n\\]|\\[^\n]|\\\n)*", lambda m: blank(m.group()), code, flags=re.M)


def line_of(text, position):
    return text.count("\n", 0, position) + 1


ACCESS = re.compile(r"\s*((public|private|protected)\s*:(?!:))?\s*")
ATTRIBUTES = re.compile(r"\[\[.*?\]\]|\balignas\s*\([^)]*\)|__attribute__\s*\(\(.*?\)\)", re.S)
SCOPE = re.compile(r'\b(namespace|class|struct|union|enum)\b[^()=]*$|\bextern\s*""\s*$')
INIT_MEMBER = re.compile(r"\)\s*(noexcept(\s*\([^)]*\))?)?\s*:(?!:)(.|\n)*[\w>]\s*$")


def functions(code):
    """(name, first line, last line) of every function body; code is stripped of comments, strings, preprocessor."""
    found, stack, head_start, index = [], [], 0, 0
    in_function = 0
    for match in re.finditer(r"[{};]", code):
        index = match.start()
        kind = match.group()
        if kind == "{":
            head = ATTRIBUTES.sub(" ", code[head_start:index])
            if in_function:
                stack.append(("block", None, None))
            elif SCOPE.search(head) or not head.strip():
                stack.append(("scope", None, None))
                head_start = index + 1
            elif "(" in head and not INIT_MEMBER.search(head) and not re.search(r"[=,]\s*$", head):
                first = line_of(code, ACCESS.match(code, head_start).end())
                name = re.search(r"((?:\w+::)*operator\s*[^\s\w]{1,3}|[\w~:]+)\s*\(", ACCESS.sub("", head, count=1))
                stack.append(("function", name.group(1) if name else "?", first))
                in_function += 1
            else:
                stack.append(("init", None, None))
        elif kind == "}":
            if not stack:
                continue
            what, name, first = stack.pop()
            if what == "function":
                in_function -= 1
                found.append((name, first, line_of(code, index)))
            if what in ("function", "scope"):
                head_start = index + 1
        elif not in_function and not any(s[0] == "init" for s in stack):
            head_start = index + 1
    return found


def inner(path):
    """The path as the rules name it: without src/."""
    return path[4:] if path.startswith("src/") else path


def is_test(path):
    """Test programs, fuzz programs and what only they include (test_x.h, x_testing.h)."""
    return re.search(r"_(test|fuzz)\.(cc|cu)$|(^|/)test_\w+\.(h|cc)$|_testing\.h$", path) is not None or path.startswith(("tests/", "bench/"))


class Tidy:
    def __init__(self, root):
        self.root = root
        self.findings = []
        with open(os.path.join(root, "tools/layers.txt"), encoding="utf-8") as file:
            self.rules = Rules(file.read())
        self.files = self.list_files()
        self.allowed = self.allow_list()  # (path, function) -> (lines, line of the entry)
        self.long = {}                    # (path, function) -> lines, of the entries that are needed

    def report(self, path, line, sentence):
        self.findings.append(f"{path}:{line}: {sentence}")

    def list_files(self):
        """What git tracks or would track; every file where there is no git."""
        try:
            out = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", "-z"], cwd=self.root, check=True,
                                 stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout.decode()
            names = [name for name in out.split("\0") if name]
        except (OSError, subprocess.CalledProcessError):
            names = []
            for folder, folders, files in os.walk(self.root):
                folders[:] = [f for f in folders if f not in (".git", "build")]
                names += [os.path.relpath(os.path.join(folder, f), self.root) for f in files]
        return sorted(n for n in names if os.path.isfile(os.path.join(self.root, n)))

    def read(self, path):
        with open(os.path.join(self.root, path), encoding="utf-8", errors="replace") as file:
            return file.read()

    def run(self):
        self.check_size()
        for path in self.files:
            if path.endswith(".md"):
                self.check_links(path)
            if path.endswith(TEXT) or os.path.basename(path) in ("Makefile", "run"):
                self.check_words(path)
            if path.endswith(SOURCE) and path.startswith(TREES):
                self.check_source(path)
        self.check_once()
        self.check_allow_list()
        self.check_link_table()
        return self.findings

    def check_size(self):
        total = sum(os.path.getsize(os.path.join(self.root, f)) for f in self.files)
        limit = self.rules.budget["tree_megabytes"]
        if total >= limit * 1000000:
            self.report(".", 1, f"the tree holds {total / 1e6:.1f} MB; it stays below {limit} MB")

    def check_links(self, path):
        text = re.sub(r"```.*?```", lambda m: blank(m.group()), self.read(path), flags=re.S)
        for match in re.finditer(r"\]\(([^)\s]+)\)", text):
            target = match.group(1).split("#")[0]
            if not target or re.match(r"[a-z]+:", target):
                continue
            if not os.path.exists(os.path.join(self.root, os.path.dirname(path), target)):
                self.report(path, line_of(text, match.start()), f"the link to {target} leads nowhere")

    def check_words(self, path):
        if path.startswith(("models/", "tests/data/")):
            return
        text = self.read(path)
        for pattern, why in BANNED[:2] if path.endswith(".md") else BANNED:
            for match in pattern.finditer(text):
                self.report(path, line_of(text, match.start()), f"'{match.group()}': {why}")

    def check_source(self, path):
        source = self.read(path)
        code = strip(source, strings=True)
        lines = source.count("\n")
        name = inner(path)
        folder = name.split("/")[0]
        limit = self.rules.file_lines.get(folder, self.rules.file_lines[""])
        if lines > limit:
            self.report(path, lines, f"{lines} lines; the budget is {limit}")
        if path.endswith(".h") and not re.search(r"^#pragma once$", source, re.M):
            self.report(path, 1, "no #pragma once")
        if name in self.rules.public:
            self.check_comment_share(path, source)
        self.check_includes(path, folder, code)
        self.check_only(path, name, folder, code)
        self.check_functions(path, code)

    def check_comment_share(self, path, source):
        lines = [line for line in source.splitlines() if line.strip()]
        share = 100 * sum("//" in line or line.strip().startswith(("*", "/*")) for line in lines) / max(1, len(lines))
        if share < self.rules.budget["comment"]:
            self.report(path, 1, f"{share:.0f} % of the lines carry a comment; a public header has {self.rules.budget['comment']} %")

    def check_includes(self, path, folder, code):
        if folder in ("tests", "bench"):
            return
        allowed = self.rules.layers.get(folder)
        if allowed is None:
            self.report(path, 1, f"the folder {folder} is not in tools/layers.txt")
            return
        for match in re.finditer(r'^\s*#\s*include\s*"([^"]+)"', code, re.M):
            line = line_of(code, match.start(1))
            target = match.group(1).split("/")[0]
            if "/" not in match.group(1) or target not in self.rules.layers:
                self.report(path, line, f'"{match.group(1)}" is not a path from src/')
            elif is_test(match.group(1)) and not is_test(path):
                self.report(path, line, f'"{match.group(1)}" is for tests only')
            elif target not in allowed:
                self.report(path, line, f"{folder} may not include {target}")
            elif (folder, target) in self.rules.narrow and not is_test(path):
                self.check_narrow(path, line, folder, match.group(1))

    def check_narrow(self, path, line, folder, header):
        target, rest = header.split("/", 1)
        words = self.rules.narrow[folder, target]
        if words[0] == "from":
            if not os.path.basename(path).startswith(words[1]):
                self.report(path, line, f"only {folder}/{words[1]}* may include {target}")
        elif rest not in words:
            self.report(path, line, f"{folder} may include of {target} only {', '.join(words)}, not {rest}")

    def check_only(self, path, name, folder, code):
        for what, where, tests_free, scope, pattern in self.rules.only:
            if (tests_free and is_test(path)) or (scope and folder not in scope):
                continue
            if any(name == place or name.startswith(place + "/") for place in where):
                continue
            for match in pattern.finditer(code):
                places = " ".join(where) or "nowhere"
                self.report(path, line_of(code, match.start()), f"'{match.group().strip()}': {what} only in: {places}")

    def allow_list(self):
        if LONG_FUNCTIONS not in self.files:
            return {}
        entries = {}
        for number, line in enumerate(self.read(LONG_FUNCTIONS).splitlines(), 1):
            words = line.split("#")[0].split()
            if words:
                entries[words[0], words[1]] = (int(words[2]), number)
        return entries

    def check_functions(self, path, code):
        for name, first, last in functions(without_preprocessor(code)):
            length = last - first + 1
            limit, _ = self.allowed.get((path, name), (self.rules.budget["function"], 0))
            if length > limit:
                self.report(path, first, f"{name} has {length} lines; the budget is {limit}")
            if length > self.rules.budget["function"]:
                self.long[path, name] = max(length, self.long.get((path, name), 0))

    def check_allow_list(self):
        for (path, name), (length, line) in self.allowed.items():
            if (path, name) not in self.long:
                self.report(LONG_FUNCTIONS, line, f"{path} {name} needs no entry any more: remove it")
            elif self.long[path, name] < length:
                self.report(LONG_FUNCTIONS, line, f"{path} {name} has {self.long[path, name]} lines now: lower its entry")

    def check_once(self):
        for name, pattern in self.rules.once:
            path = "src/" + name
            if path in self.files:
                count = len(pattern.findall(strip(self.read(path), strings=True)))
                if count != 1:
                    self.report(path, 1, f"{count} matches of {pattern.pattern}; there is exactly one")

    def check_link_table(self):
        """CMake may not link a folder that the table forbids to include."""
        if "CMakeLists.txt" not in self.files:
            return
        text = self.read("CMakeLists.txt")
        for match in re.finditer(r"^evros_library\((\w+) DEPS([^)]*)\)", text, re.M):
            folder = match.group(1)
            deps = re.split(r"\b(?:PRIVATE_)?LIBS\b", match.group(2))[0].split()
            for dep in deps:
                if dep not in self.rules.layers.get(folder, set()):
                    self.report("CMakeLists.txt", line_of(text, match.start()), f"{folder} may not link {dep}")


def main():
    root = sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
    findings = Tidy(root).run()
    for finding in findings:
        print(finding)
    if findings:
        print(f"tidy: {len(findings)} findings")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
