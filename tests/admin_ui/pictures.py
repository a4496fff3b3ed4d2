"""Pictures of pages for the documentation: PNG files with a palette, a third of the usual size."""

from __future__ import annotations

import base64
import struct
import zlib
from pathlib import Path
from typing import Any

from playwright.sync_api import Page

QUANTIZE = """async ([png]) => {
  const blob = await (await fetch(`data:image/png;base64,${png}`)).blob();
  const bitmap = await createImageBitmap(blob);
  const {width, height} = bitmap;
  const canvas = new OffscreenCanvas(width, height).getContext("2d");
  canvas.drawImage(bitmap, 0, 0);
  const pixels = new Uint32Array(canvas.getImageData(0, 0, width, height).data.buffer);
  const counts = new Map();
  for (const pixel of pixels) counts.set(pixel, (counts.get(pixel) ?? 0) + 1);
  const palette = [...counts].sort((a, b) => b[1] - a[1]).slice(0, 256).map(([pixel]) => pixel);
  const parts = (pixel) => [pixel & 255, (pixel >> 8) & 255, (pixel >> 16) & 255];
  const colours = palette.map(parts);
  const nearest = new Map(palette.map((pixel, index) => [pixel, index]));
  const find = (pixel) => {
    const [r, g, b] = parts(pixel);
    let best = 0, least = Infinity;
    colours.forEach(([r2, g2, b2], index) => {
      const away = (r - r2) ** 2 + (g - g2) ** 2 + (b - b2) ** 2;
      if (away < least) [best, least] = [index, away];
    });
    nearest.set(pixel, best);
    return best;
  };
  const indices = Uint8Array.from(pixels, (pixel) => nearest.get(pixel) ?? find(pixel));
  let text = "";
  for (let at = 0; at < indices.length; at += 32768)
    text += String.fromCharCode(...indices.subarray(at, at + 32768));
  return {width, height, palette: colours, indices: btoa(text)};
}"""
"""The most frequent colours of a page are its own; of its letters' edges, the nearest will do."""


def take(page: Page, path: Path) -> None:
    """Write what a page shows at this moment."""
    png = base64.b64encode(page.screenshot()).decode()
    blank = page.context.new_page()  # the page's own policy allows no such work
    made: dict[str, Any] = blank.evaluate(QUANTIZE, [png])
    blank.close()
    width, height = made["width"], made["height"]
    indices = base64.b64decode(made["indices"])
    rows = (indices[at : at + width] for at in range(0, len(indices), width))
    content = zlib.compress(b"".join(b"\0" + row for row in rows), 9)
    chunks = (
        _chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)),
        _chunk(b"PLTE", bytes(part for colour in made["palette"] for part in colour)),
        _chunk(b"IDAT", content),
        _chunk(b"IEND", b""),
    )
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + b"".join(chunks))


def _chunk(kind: bytes, content: bytes) -> bytes:
    checksum = zlib.crc32(kind + content)
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", checksum)
