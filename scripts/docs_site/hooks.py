"""The mkdocs hooks of `make docs`.

The pages of the repository link to each other in the form of code hosts: `../README.md`,
`docs/tools.md`, `../examples/providers/ai-agent.yaml`. The site holds docs/, so this

- takes the pages at the root of the repository into the site (`ROOT_PAGES`),
- makes a page of every other file that a page links to, with its text as code,
- rewrites those links to the pages' addresses in the site; a link to a folder becomes plain text,
- gives headings the anchors, and `|` in tables the look, that code hosts give them,
- adds mermaid.js, from a locked package, to the pages with a diagram,
- adds the stand-in for web workers that search needs when the site is opened from a disk.
"""

from __future__ import annotations

import importlib.util
import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files, InclusionLevel

ROOT = Path(__file__).resolve().parents[2]
ROOT_PAGES = {
    "README.md": "start.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
}
"""Pages at the root of the repository, and their place in the site."""
FILES = "files"
"""Folder of the site with the files of the repository that pages link to."""
MERMAID = "javascripts/mermaid.js"
WORKER = "javascripts/iframe-worker.js"
CODE = re.compile(r"^(?:```|~~~).*?^(?:```|~~~)|`[^`\n]*`", re.M | re.S)
LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\]\([^)]*\))*)\]\((?![a-z]+:|#)([^)\s]+)\)")
LANGUAGES = {".yaml": "yaml", ".toml": "toml", ".py": "python", ".json": "json"}


def on_config(config: Any) -> Any:
    """Anchors as code hosts make them; our stand-in for web workers, not that of a CDN."""
    config.mdx_configs["toc"]["slugify"] = anchor
    config.extra["polyfills"] = [WORKER]
    return config


def anchor(heading: str, _separator: str = "-") -> str:
    """The anchor of a heading without markup."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


def on_files(files: Files, config: Any) -> Files:
    """Add the pages and files from outside of docs/."""
    mmdc = importlib.util.find_spec("mmdc")
    if mmdc is None or mmdc.origin is None:
        raise FileNotFoundError("mermaid.js: the package mmdc is missing")
    mermaid = Path(mmdc.origin).parent / "assets" / "mermaid.js"
    files.append(File.generated(config, MERMAID, abs_src_path=str(mermaid)))
    worker = str(Path(__file__).with_name("iframe-worker.js"))
    files.append(File.generated(config, WORKER, abs_src_path=worker))
    for name, page in ROOT_PAGES.items():
        if (ROOT / name).exists():
            files.append(File.generated(config, page, content=(ROOT / name).read_text()))
    for path in sorted({path for page in list(files) for path in _linked_files(page)}):
        text = (ROOT / path).read_text()
        content = f"# {path}\n\n````{LANGUAGES.get(Path(path).suffix, 'text')}\n{text}\n````\n"
        level = InclusionLevel.NOT_IN_NAV
        files.append(File.generated(config, f"{FILES}/{path}.md", content=content, inclusion=level))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Rewrite the links of one page to addresses in the site."""
    here = page.file.src_uri
    if here.startswith(f"{FILES}/"):
        return markdown

    def rewritten(match: re.Match[str]) -> str:
        image, text, link = match.groups()
        if "](" in text:  # a picture that is a link
            text = LINK.sub(rewritten, text)
        path, hash_, anchor = link.partition("#")
        target = _in_repository(here, path)
        if (ROOT / target).is_dir():
            return text
        site = posixpath.relpath(_in_site(target), posixpath.dirname(here) or ".")
        return f"{image}[{text}]({site}{hash_}{anchor})"

    return _outside_code(markdown, rewritten)


def on_page_content(html: str, **_: Any) -> str:
    """Take the backslash from a `|` in code in tables, as code hosts do."""
    return re.sub(r"<td.*?</td>", lambda cell: cell[0].replace("\\|", "|"), html, flags=re.S)


def on_post_page(output: str, page: Any, **_: Any) -> str:
    """Load mermaid.js where there is a diagram."""
    if 'class="mermaid"' not in output:
        return output
    address = posixpath.relpath(MERMAID, posixpath.dirname(page.file.dest_uri) or ".")
    return output.replace("</head>", f'<script src="{address}"></script></head>', 1)


def _outside_code(markdown: str, rewritten: Any) -> str:
    """Apply `rewritten` to every link that is not code; code within a link's text stays too."""
    kept: list[str] = []

    def keep(match: re.Match[str]) -> str:
        kept.append(match[0])
        return f"\0{len(kept) - 1}\0"

    text = LINK.sub(rewritten, CODE.sub(keep, markdown))
    return re.sub("\0(\\d+)\0", lambda match: kept[int(match[1])], text)


def _in_repository(src_uri: str, link: str) -> str:
    """Return the path in the repository of a link on a page of the site."""
    at_root = {page: name for name, page in ROOT_PAGES.items()}
    source = at_root.get(src_uri, f"docs/{src_uri}")
    return posixpath.normpath(posixpath.join(posixpath.dirname(source), link))


def _in_site(path: str) -> str:
    """Return the place of a repository's file in the site."""
    if path.startswith("docs/"):
        return path.removeprefix("docs/")
    return ROOT_PAGES.get(path, f"{FILES}/{path}.md")


def _linked_files(page: File) -> set[str]:
    """The files outside of docs/ that a page links to, but for pages at the root."""
    if not page.is_documentation_page():
        return set()
    text = CODE.sub("", page.content_string)
    links = {link.partition("#")[0] for _, _, link in LINK.findall(text)}
    targets = {_in_repository(page.src_uri, link) for link in links}
    return {
        path
        for path in targets - ROOT_PAGES.keys()
        if not path.startswith("docs/") and (ROOT / path).is_file()
    }
