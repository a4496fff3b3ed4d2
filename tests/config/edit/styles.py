"""Thirty styles in which people write YAML.

A comment `# at KEY` belongs to the entry with that key; `# free` belongs to none.
"""

from __future__ import annotations

STYLES: dict[str, str] = {
    "two spaces": "a:\n  b: 1\n  c: text\nd: 2\n",
    "four spaces": "a:\n    b: 1\n    c:\n        d: 2\ne: x\n",
    "lists at the key": "a:\n- x\n- y\n# at c\nc:\n- z\n",
    "lists below the key": "a:\n  - x\n  # at a[1]\n  - y  # at a[1]\n  - z\nc: 1\n",
    "lists far below": "a:\n    -   x\n    -   y: 1\n        z: 2\nb: 3\n",
    "flow on one line": "a: {b: 1, c: [x, y, z], d: {}}\ne: [1, 2]\n",
    "flow without blanks": 'a: {"b":1,"c":[1,2]}\nd: []\n',
    "flow on lines": (
        "a: [\n  x,  # at a[0]\n  # at a[1]\n  y,\n  z\n]\nb: {\n  c: 1,\n  d: 2,\n}\n"
    ),
    "json": '{\n "a": {\n  "b": 1,\n  "c": ["x", "y"]\n },\n "d": null\n}\n',
    "double quotes": 'a: "x"\nb:\n  c: "y # no comment"\n  d: "z\\n"\n',
    "single quotes": "a: 'it''s'\nb:\n  - 'x'\n  - 'y: z'\n",
    "literal texts": (
        "a: |\n  one\n\n  # no comment\n  two\n\nb:\n  c: |-\n    x\n  d: |+\n    y\n\ne: 1\n"
    ),
    "folded texts": "a: >-\n  one\n  two\n\n  three\nb:\n  - >\n    four\n    five\n  - six\n",
    "indicator": "a: |2-\n    deeper\n  x\nb: 1\n",
    "many lines": "a: one\n  two\n  three\nb: 'x\n  # no comment\n  y'\nc: \"z\n  w\"\nd: 1\n",
    "below the key": 'a:\n  text\nb:\n  # at b.c\n  c:\n    "quoted"  # at b.c\nd: 1\n',
    "comments": (
        "# free\n\n# at a\na: 1  # at a\n# at b\n# at b\nb:  # at b\n  # at b.c\n  c: 1\n"
        "  # at b\n\n  d: 2  # at b.d\n    # at b.d\n\n# free\n"
    ),
    "commented out": "a:\n  b: 1\n  # at a\nc:\n  d:\n    e: 1\n    # at c.d\n  # at c.f\n  f: 2\n",
    "blank lines": "a: 1\n\n\nb:\n\n  c: 2\n\n  d: 3\n\n\ne: 4\n\n",
    "CRLF": "a:  # at a\r\n  b: 1\r\n  c: |\r\n    x\r\n    y\r\n# at d\r\nd: [1, 2]\r\n",
    "tabs": 'a: "x\ty"  #\tfree\nb: |\n  \tone\n  two\ttabs\nc: [1,\t2]\nd: {x:\t1,\ty: 2}\n',
    "BOM": "\ufeffa: 1\nb:\n  c: ü\n",
    "no break at the end": "a: 1\nb:\n  c: 2",
    "anchors": (
        "base: &base\n  x: 1\na:\n  <<: *base\n  y: 2\nb: *base\nc:\n  - *base\n  - z\nd: 1\n"
    ),
    "variables": 'a: ${NAME}\nb: "${FILE:-x}"\nc: [ "${A}", $$5 ]\nd: pre-${B}-post\n',
    "empty values": "a:\nb: ~\nc: null\nd:\n  -\n  - x\n  -\ne: {f, g: }\nh: ''\n",
    "document marks": "%YAML 1.2\n---\n# at a\na: 1\nb: {c: 2}\n...\n",
    "numbers": "a: 007\nb: 0x1F\nc: 1_000\nd: 1e3\ne: .inf\n007: x\ntrue: y\nf: 1.50\n",
    "strange keys": '"a b": 1\n\'c\': 2\n"d: e": {"f g": 3}\n? h\n: 4\ni: 5\n',
    "mappings in lists": (
        "a:\n  - b: 1  # at a[0].b\n    # at a[0].c\n    c: 2\n  # at a[1]\n  - b: 3\n\n"
        "  - {b: 4, c: 5}\n  - - x\n    - y\nd: 1\n"
    ),
    "unaligned": (
        "a:\n   b: 1\n   c:\n     - x\nd:\n  - y:   1\n    z:    2   # at d[0].z\ne   : 3\n"
    ),
    "wide": (
        "rules:\n  KBOS: [Boston, Boston Logan, Logan]   # at rules.KBOS\n"
        "  KSFO:  [San Francisco, SFO]\n"
    ),
}
