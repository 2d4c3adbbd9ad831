/* check.js: put behind the scripts of a page by pages.sh: checks that count, and at the end their result as the page's only text
 * between two marks, which the browser prints with the document. */
"use strict";
const test = { checks: 0, failures: [] };
test.check = (what, good, seen) => {
    test.checks++;
    if (!good) test.failures.push(seen === undefined ? what : `${what}: ${seen}`);
};
test.same = (what, got, wanted) => test.check(what, got === wanted, `"${got}" is not "${wanted}"`);
test.all = (selector) => [...document.querySelectorAll(selector)];
test.one = (selector) => {
    const found = document.querySelector(selector);
    test.check(`there is no ${selector}`, found);
    return found;
};
test.button = (text) => {
    const found = test.all("button").find((b) => b.textContent.trim() === text || b.getAttribute("aria-label") === text);
    test.check(`there is no button "${text}"`, found);
    return found;
};
test.press = (element, key) => element.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true }));
test.wait = (milliseconds) => new Promise((done) => setTimeout(done, milliseconds));
/* How many colours a canvas shows: one that was never drawn has a single one. */
test.colours = (canvas) => {
    const copy = new OffscreenCanvas(canvas.width, canvas.height).getContext("2d", { willReadFrequently: true }), seen = new Set();
    copy.drawImage(canvas, 0, 0);
    const pixels = copy.getImageData(0, 0, canvas.width, canvas.height).data;
    for (let i = 0; i < pixels.length; i += 4) seen.add(pixels[i] << 16 | pixels[i + 1] << 8 | pixels[i + 2]);
    return seen.size;
};
/* What holds of every page. */
test.common = () => {
    for (const canvas of test.all(".chart canvas")) for (const texts of canvas.marks || []) {
        test.check(`marks of an axis that are alike: ${texts.join(" ")}`, new Set(texts).size === texts.length);
        test.check(`marks of an axis that say little: ${texts.join(" ")}`, texts.length > 1 && texts.length < 30 && !texts.some((t) => t.includes("NaN") || t.startsWith("-0")));
    }
    for (const element of test.all("button, select, input, [tabindex='0']")) {
        const name = element.getAttribute("aria-label") || element.textContent.trim() || (element.labels && element.labels.length && element.labels[0].textContent.trim());
        test.check(`an element without a name: ${element.outerHTML.slice(0, 90)}`, name);
    }
    test.same("pictures of other places", test.all("img, link, iframe, [src]:not(script), a[href^=http]").length, 0);
    test.same("things loaded from anywhere", performance.getEntriesByType("resource").length, 0);
    for (const canvas of test.all(".chart canvas")) test.same("the pixels of a chart and its width", canvas.width, Math.round(canvas.clientWidth * devicePixelRatio));
    for (const element of test.all("main *")) {
        const scrolls = /auto|scroll/.test(getComputedStyle(element).overflowY) && element.scrollHeight > element.clientHeight + 1;
        test.check(`something scrolls inside the page: ${element.outerHTML.slice(0, 90)}`, !scrolls);
    }
    /* A table may be wider than the window: then its side says so, and no word or number of it is broken. */
    for (const table of test.all(".scroll")) test.check("a table does not show that it scrolls", getComputedStyle(table).backgroundImage.includes("gradient"));
    for (const cell of test.all(".scroll th, .scroll td")) {
        const text = cell.textContent.trim(), range = document.createRange();
        if (!text || text.length > 14 || /[\s-]/.test(text) || !cell.getClientRects().length) continue;
        const walk = document.createTreeWalker(cell, NodeFilter.SHOW_TEXT); /* boxes of buttons are no lines */
        for (let node = walk.nextNode(); node; node = walk.nextNode()) {
            range.selectNodeContents(node);
            const lines = new Set([...range.getClientRects()].map((r) => Math.round(r.bottom)));
            test.check(`"${text}" is broken`, lines.size <= 1, lines.size);
        }
    }
    test.same("the language of the page", document.documentElement.lang, "en");
    test.check("the page is wider than the window", document.documentElement.scrollWidth <= innerWidth + 1, `${document.documentElement.scrollWidth} of ${innerWidth}`);
    /* Text must be read on its background (WCAG 2.1, 1.4.3: at least 4.5). */
    const light = (text) => {
        const c = /^#(..)(..)(..)$/.exec(text).slice(1).map((h) => parseInt(h, 16) / 255).map((v) => v <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4);
        return .2126 * c[0] + .7152 * c[1] + .0722 * c[2];
    };
    for (const [ink, paper, least] of [["--ink", "--paper", 7], ["--soft", "--paper", 4.5], ["--soft", "--panel", 4.5], ["--accent", "--paper", 4.5], ["--on-accent", "--accent", 4.5],
        ...[0, 1, 2, 3, 4, 5, 6, 7].map((i) => [`--c${i}`, "--paper", 3])]) {
        const a = light(page.colour(ink)) + .05, b = light(page.colour(paper)) + .05;
        test.check(`${ink} on ${paper} is hard to read`, Math.max(a / b, b / a) >= least, (Math.max(a / b, b / a)).toFixed(2));
    }
};
test.run = async (body) => {
    try { await body(); } catch (error) { test.failures.push(`the test itself failed: ${error.stack || error}`); }
    const text = test.failures.length ? test.failures.map((f) => `FAILED ${f}`).join("\n") : `PASSED ${test.checks}`;
    document.body.append(page.el("pre", { id: "results" }, `\n@@begin\n${text}\n@@end\n`));
};
