#!/usr/bin/env python3
"""What the documents say of each other and of the tree, held to be true.

`documents.py check` (a part of `make test`) fails with a line for each fault; `documents.py write` writes the tables of figures anew from
docs/perf/figures.toml.
"""

import glob
import os
import re
import sys
import tomllib

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
FIGURES = "docs/perf/figures.toml"
BLOCK = re.compile(r"(<!-- figures -->\n).*?(<!-- /figures -->\n)", re.DOTALL)
WORDS_OF_README = 700
FIGURES_OF_README = 12
NEEDED = ["what", "value", "beside", "date", "commit", "command", "file"]


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def documents():
    """Every Markdown file of the tree, without what was built or brought here."""
    skipped = ("target", "node_modules", ".git")
    found = []
    for folder, folders, files in os.walk("."):
        folders[:] = [name for name in folders if name not in skipped]
        found += [os.path.normpath(os.path.join(folder, name)) for name in files if name.endswith(".md")]
    return sorted(found)


def figures():
    return tomllib.loads(read(FIGURES))["figure"]


def table_of_all(rows):
    lines = ["| what | here | beside it, by turns | date, commit | command |", "|---|---|---|---|---|"]
    for row in rows:
        when = f"[{row['date']}]({row['file']}), {row['commit']}"
        lines.append(f"| {row['what']} | {row['value']} | {row['beside']} | {when} | `{row['command']}` |")
    return "\n".join(lines) + "\n"


def table_of_readme(rows):
    rows = [row for row in rows if row.get("readme")]
    lines = ["| | here | beside it | date |", "|---|---|---|---|"]
    lines += [f"| {row['what']} | {row['value']} | {row['beside']} | {row['date']} |" for row in rows]
    return "\n".join(lines) + "\n"


def tables(rows):
    return [("docs/perf/README.md", table_of_all(rows)), ("README.md", table_of_readme(rows))]


def with_table(text, table):
    assert BLOCK.search(text), "no place for the table of figures"
    return BLOCK.sub(lambda found: found.group(1) + table + found.group(2), text)


def write():
    for path, table in tables(figures()):
        text = with_table(read(path), table)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)


def faults_of_figures():
    rows = figures()
    for path, table in tables(rows):
        if read(path) != with_table(read(path), table):
            yield f"{path}: its figures are not those of {FIGURES}: scripts/documents.py write"
    if sum(1 for row in rows if row.get("readme")) != FIGURES_OF_README:
        yield f"{FIGURES}: README.md shows a dozen figures"
    for row in rows:
        missing = [key for key in NEEDED if key not in row]
        if missing:
            yield f"{FIGURES}: {row.get('what')}: no {', '.join(missing)}"
            continue
        file = os.path.join("docs/perf", row["file"])
        if not os.path.exists(file):
            yield f"{FIGURES}: {row['what']}: there is no {file}"
        elif row["commit"] not in read(file):
            yield f"{FIGURES}: {row['what']}: {file} does not name the commit {row['commit']}"
        yield from elsewhere(row)
    names = [row["what"] for row in rows]
    yield from (f"{FIGURES}: twice: {name}" for name in sorted({name for name in names if names.count(name) > 1}))
    # A file of a day is a record of that day.
    yield from (f"{path}: dated files of figures belong to docs/perf/history" for path in glob.glob("docs/perf/20*.md"))


def elsewhere(row):
    """Other documents that state the figure state the same one."""
    expected = re.findall(r"\d[\d,.]*", row["value"])
    for expression in row.get("elsewhere", []):
        found = False
        for path in documents():
            if path.startswith("docs/perf/history") or path == "CHANGELOG.md":
                continue
            for match in re.finditer(expression, read(path)):
                found = True
                if list(match.groups()) != expected[: len(match.groups())]:
                    yield f"{path}: {match.group(0)!r}, but {FIGURES} has {row['value']} for {row['what']}"
        if not found:
            yield f"{FIGURES}: {row['what']}: nothing matches {expression!r} any more"


def anchors(text):
    """The anchors of a page's headings, as GitHub makes them."""
    text = re.sub(r"^```.*?^```$", "", text, flags=re.DOTALL | re.MULTILINE)
    headings = re.findall(r"^#+ (.*)$", text, flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def faults_of_links():
    for path in documents():
        text = re.sub(r"^```.*?^```$", "", read(path), flags=re.DOTALL | re.MULTILINE)
        for link in re.findall(r"\]\(([^)\s]+)\)", text):
            if re.match(r"[a-z]+:", link):
                continue
            place, _, anchor = link.partition("#")
            target = os.path.normpath(os.path.join(os.path.dirname(path), place)) if place else path
            if not os.path.exists(target):
                yield f"{path}: {link} is nowhere"
            elif anchor and target.endswith(".md") and anchor not in anchors(read(target)):
                yield f"{path}: {link}: no such heading"


def faults_of_paths():
    """Paths of the tree that documents name in words are there: all of ARCHITECTURE.md's, and those from the root of the others'."""
    for path in documents():
        if path == "CHANGELOG.md" or path.startswith("docs/perf/history"):
            continue
        for name in re.findall(r"`([^`\s]+)`", re.sub(r"^```.*?^```$", "", read(path), flags=re.DOTALL | re.MULTILINE)):
            is_path = re.match(r"(crates|docs|interop|scripts|packaging|peers|fuzz)/[\w./{},*-]+$", name)
            if path == "ARCHITECTURE.md":
                is_path = is_path or re.match(r"[\w./{},-]+\.(rs|md|toml|h)$", name) or re.match(r"\w+/[\w/{},]+$", name)
            for one in alternatives(name) if is_path and "/target/" not in name else []:
                if not glob.glob(one):
                    yield f"{path}: there is no {one}"


def alternatives(name):
    """The paths that `a/{b,c}/d` stands for."""
    braces = re.search(r"\{([^{}]*)\}", name)
    if not braces:
        return [name]
    return [path for part in braces.group(1).split(",") for path in alternatives(name[: braces.start()] + part + name[braces.end() :])]


def faults_of_indices():
    index = read("docs/README.md")
    for path in glob.glob("docs/operating/*.md") + glob.glob("docs/wire/*.md") + glob.glob("docs/decisions/*.md"):
        if f"]({path.removeprefix('docs/')})" not in index:
            yield f"docs/README.md does not name {path}"
    history = read("docs/perf/history/README.md")
    for path in glob.glob("docs/perf/history/20*.md"):
        if f"]({os.path.basename(path)})" not in history:
            yield f"docs/perf/history/README.md does not name {path}"
    numbers = [os.path.basename(path)[:4] for path in glob.glob("docs/decisions/*.md")]
    yield from (f"docs/decisions: two have the number {number}" for number in sorted({n for n in numbers if numbers.count(n) > 1}))


def faults_of_readme():
    # Its table of figures is looked at, not read.
    words = len(BLOCK.sub("", read("README.md")).split())
    if words >= WORDS_OF_README:
        yield f"README.md has {words} words: it is read in two minutes with less than {WORDS_OF_README}"
    picture = re.search(r"!\[[^\]]+\]\(([^)]+)\)", read("README.md"))
    if not picture:
        yield "README.md has no picture of the page"
    elif not os.path.exists(picture.group(1)):
        return
    elif os.path.getsize(picture.group(1)) > 150_000:
        yield f"{picture.group(1)} is larger than 150 KB"


def faults_of_words():
    rows = re.findall(r"^\| ([^|]+) \| [^|]+ \| [^|]+ \|$", read("docs/glossary.md"), flags=re.MULTILINE)[2:]
    words = [word.strip() for row in rows for word in row.split(",")]
    yield from (f"docs/glossary.md: two meanings: {word}" for word in sorted({w for w in words if words.count(w) > 1}))


CHECKS = [faults_of_figures, faults_of_links, faults_of_paths, faults_of_indices, faults_of_readme, faults_of_words]


def check():
    faults = [fault for one in CHECKS for fault in one()]
    print("\n".join(faults) if faults else f"test result: ok. {len(CHECKS)} passed; 0 failed")
    return 1 if faults else 0


if __name__ == "__main__":
    os.chdir(ROOT)
    if sys.argv[1:] == ["write"]:
        write()
    elif sys.argv[1:] == ["check"]:
        sys.exit(check())
    else:
        sys.exit(__doc__)
