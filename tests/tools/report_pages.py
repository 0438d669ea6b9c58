#!/usr/bin/env python3
"""Opens reports (pages of convoy bench --report and convoy eval --report) in Chromium, and looks for what is wrong with them.

    report_pages.py PAGE...                light and dark, on a desk and a telephone
    report_pages.py --pictures FOLDER PAGE...
                                           also writes pictures of them to FOLDER

Wrong is: anything that the console, the content security policy or the network says; a page wider than its window; a text that
lies outside of its chart, or that is too pale to be read."""

import pathlib
import sys

from browser import Browser

# Texts of charts with what is wrong with them. The contrast of 4.5 to 1 is what WCAG 2 asks for.
WRONG = """(() => {
    const light = (colour) => {
        const parts = colour.match(/[0-9.]+/g).slice(0, 3).map((part) => part / 255)
            .map((part) => part <= 0.03928 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4);
        return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2];
    };
    const behind = (element) => {
        for (let at = element; at; at = at.parentElement) {
            const colour = getComputedStyle(at).backgroundColor;
            if (!colour.endsWith(", 0)")) return light(colour);
        }
        return 1;
    };
    const found = [];
    document.querySelectorAll("details").forEach((details) => { details.open = true; });
    for (const element of document.querySelectorAll("svg.chart text:not(.count), td, th, p, h1, h2, summary, figcaption, div.gone")) {
        const chart = element.closest("svg"), style = getComputedStyle(element), box = element.getBoundingClientRect();
        const ink = light(chart ? style.fill : style.color), paper = behind(chart ?? element);
        const contrast = (Math.max(ink, paper) + 0.05) / (Math.min(ink, paper) + 0.05);
        if (contrast < 4.5) found.push(`a contrast of ${contrast.toFixed(2)}: ${element.textContent.slice(0, 60)}`);
        if (!chart) continue;
        const area = chart.getBoundingClientRect();
        if (box.left < area.left - 1 || box.right > area.right + 1 || box.top < area.top - 1 || box.bottom > area.bottom + 1)
            found.push(`outside of ${chart.id}: ${element.textContent.slice(0, 60)}`);
    }
    const root = document.documentElement;
    if (root.scrollWidth > root.clientWidth) found.push(`the page is ${root.scrollWidth} wide in a window of ${root.clientWidth}`);
    for (const script of document.scripts) JSON.parse(script.textContent);
    if (performance.getEntriesByType("resource").some((entry) => !entry.name.startsWith("data:"))) found.push("it loads something");
    return found;
})()"""


def main():
    arguments, pictures = sys.argv[1:], None
    if arguments[0] == "--pictures":
        pictures, arguments = pathlib.Path(arguments[1]), arguments[2:]
    wrong = []
    with Browser() as browser:
        for path in map(pathlib.Path, arguments):
            for name, options in (("light", {}), ("dark", {"dark": True}), ("phone", {"width": 390, "height": 844, "phone": True})):
                page = browser.page(**{"width": 1000, "height": 1500, **options})
                page.go(path.resolve().as_uri())
                page.until("document.querySelectorAll('svg.chart').length >= 2")
                if pictures:
                    page.picture(pictures / f"{path.stem}-{name}.png")
                wrong += [f"{path.name}, {name}: {what}" for what in page.value(WRONG) + page.complaints]
    print("\n".join(wrong))
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
