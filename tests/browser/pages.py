"""How tests and screenshots start Chromium, and what they measure of a page there."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright

from tests.programs import find_chromium

FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


@contextmanager
def chromium(home: Path) -> Iterator[Browser]:
    """Chromium of the distribution, driven by Playwright; it writes nothing outside of `home`.

    Until it ends, the thread has a running event loop: no other can start in it.
    """
    with sync_playwright() as driver:
        browser = driver.chromium.launch(
            executable_path=find_chromium(), args=FLAGS, env=os.environ | {"HOME": str(home)}
        )
        yield browser
        browser.close()


TOO_WIDE = """
() => [...document.querySelectorAll('body *')]
    .filter(e => e.checkVisibility() && e.getBoundingClientRect().right > innerWidth + 0.5)
    .map(e => e.tagName + '.' + e.className)
"""
"""Elements that extend beyond the right edge of the window."""

CUT = """
() => [...document.querySelectorAll('svg *')].filter(e => e.checkVisibility() && e.getBBox).filter(e => {
    const own = e.getBoundingClientRect(), sheet = e.ownerSVGElement.getBoundingClientRect();
    return own.left < sheet.left - 1.5 || own.right > sheet.right + 1.5
        || own.top < sheet.top - 1.5 || own.bottom > sheet.bottom + 1.5;
}).map(e => e.outerHTML)
"""
"""Parts of a picture outside its sheet."""

OVERLAPPING = """
() => {
    const found = [], boxes = [];
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (walker.nextNode()) {
        const node = walker.currentNode;
        if (!node.data.trim() || !node.parentElement.checkVisibility() || node.parentElement.closest('title'))
            continue;
        const range = document.createRange();
        range.selectNodeContents(node);
        for (const box of range.getClientRects()) boxes.push([node.data.trim(), box]);
    }
    boxes.sort((a, b) => a[1].top - b[1].top);
    for (let i = 0; i < boxes.length; i++)
        for (let j = i + 1; j < boxes.length && boxes[j][1].top < boxes[i][1].bottom; j++) {
            const [a, b] = [boxes[i][1], boxes[j][1]];
            const wide = Math.min(a.right, b.right) - Math.max(a.left, b.left);
            const high = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
            if (wide > 1 && high > 0.4 * Math.min(a.height, b.height)) found.push([boxes[i][0], boxes[j][0]]);
        }
    return found;
}
"""
"""Pairs of overlapping texts."""

LOW_CONTRAST = """
(least) => {
    const canvas = document.createElement('canvas').getContext('2d', {willReadFrequently: true});
    const rgb = text => { canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = text; canvas.fillRect(0, 0, 1, 1);
        return [...canvas.getImageData(0, 0, 1, 1).data]; };
    const light = ([r, g, b]) => { const [x, y, z] = [r, g, b].map(c => (c /= 255) <= 0.04045 ? c / 12.92
        : ((c + 0.055) / 1.055) ** 2.4); return 0.2126 * x + 0.7152 * y + 0.0722 * z; };
    const ground = e => { for (let p = e.parentElement; p; p = p.parentElement) {
        const c = rgb(getComputedStyle(p).backgroundColor); if (c[3] > 0) return c; }
        return [255, 255, 255, 255]; };
    const found = new Set();
    for (const e of document.querySelectorAll('svg rect, svg line, svg path')) {
        const style = getComputedStyle(e);
        if (e.classList.contains('track')) continue;
        const behind = light(ground(e.ownerSVGElement));
        const ratios = [style.fill, style.stroke].filter(c => c !== 'none').map(c => light(rgb(c)))
            .map(own => (Math.max(own, behind) + 0.05) / (Math.min(own, behind) + 0.05));
        // A system's dots lie on the system, not on the page.
        if (!e.classList.contains('dot') && Math.max(...ratios) < least)
            found.add(e.getAttribute('class') + ' ' + Math.max(...ratios).toFixed(2));
    }
    return [...found];
}
"""
"""Mark types in pictures whose contrast is below the argument."""
