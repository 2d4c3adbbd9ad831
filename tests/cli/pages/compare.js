/* compare.js: goes through the page of a comparison. EXPECTED: {variants, failed, curves, best, wide}. */
test.run(async () => {
    await test.wait(300);
    const data = page.data, rows = () => test.all("tbody tr");
    test.same("variants", data.variants.length, EXPECTED.variants);
    test.same("rows of the table", rows().length, EXPECTED.variants);
    test.same("failed", rows().filter((r) => r.textContent.includes("failed: ")).length, EXPECTED.failed);
    test.same("curves", data.variants.reduce((n, v) => n + v.curves.length, 0), EXPECTED.curves);
    test.common();
    if (EXPECTED.wide) test.same("the width of the page", document.body.clientWidth, EXPECTED.wide);
    if (EXPECTED.best) test.check("the smallest cache is not marked", rows().find((r) => r.dataset.name === EXPECTED.best).querySelector("b"));

    /* Sorting, both ways; what failed stays below. */
    const names = () => rows().map((r) => r.dataset.name).join(" "), before = names();
    const measured = data.variants.filter((v) => v.parameters !== undefined);
    const wanted = [...measured].sort((a, b) => a.valid_loss - b.valid_loss).map((v) => v.valid_loss);
    const losses = () => rows().map((r) => data.variants.find((v) => v.name === r.dataset.name).valid_loss).filter((x) => x !== undefined);
    test.button("validation loss").click();
    test.same("sorted by loss", losses().join(), wanted.join());
    test.same("what is sorted by", test.button("validation loss").closest("th").getAttribute("aria-sort"), "ascending");
    test.check("a screen reader hears nothing of sorting", test.one("#live").textContent.includes("sorted by validation loss"));
    test.button("validation loss").click();
    test.same("sorted the other way", losses().join(), [...wanted].reverse().join());
    test.same("and back", test.button("validation loss").closest("th").getAttribute("aria-sort"), "descending");
    if (EXPECTED.failed) test.check("what failed is not below", rows()[rows().length - 1].textContent.includes("failed: "));
    test.button("variant").click();
    test.same("sorted by name", names(), [...data.variants.map((v) => v.name)].sort().join(" "));
    test.check("nothing was there before", before.length > 0);

    /* The bubbles and the curves. */
    const canvases = test.all(".chart canvas"), bubbles = canvases[0];
    for (const canvas of canvases) test.check(`${canvas.getAttribute("aria-label")} is not drawn`, test.colours(canvas) > 3, test.colours(canvas));
    for (const v of measured) test.check(`${v.name} is not in the label`, bubbles.getAttribute("aria-label").includes(`${v.name}: validation loss`));
    bubbles.focus();
    test.press(bubbles, "Home");
    test.check("no tip", !test.one(".tip").hidden && test.one(".tip").textContent.startsWith(measured[0].name), test.one(".tip").textContent);
    test.press(bubbles, "ArrowRight");
    test.check("the arrow keys do not move", test.one(".tip").textContent.startsWith(measured[1].name), test.one(".tip").textContent);
    test.check("a screen reader hears nothing", test.one("#live").textContent.startsWith(`${measured[1].name}: `));
    bubbles.blur();
    const list = test.all("select")[0];
    list.value = "train";
    list.dispatchEvent(new Event("change"));
    test.check("another speed", bubbles.getAttribute("aria-label").includes("over training, tokens/s"), bubbles.getAttribute("aria-label"));
    /* Names in the chart do not meet, and where they have no room there are numbers, which the legend has, too. */
    list.value = list.options[list.options.length - 1].value;
    list.dispatchEvent(new Event("change"));
    const names_ = bubbles.names, numbered = test.one(".legend").classList.contains("numbered");
    test.check("names in the chart", names_.length === measured.length || numbered, `${names_.length} of ${measured.length}`);
    test.check("numbers in the chart", names_.length >= .7 * measured.length, `${names_.length} of ${measured.length}`);
    for (const a of names_) {
        test.check("a name outside", a.left >= 0 && a.top >= 0 && a.left + a.width <= bubbles.clientWidth && a.top + a.height <= bubbles.clientHeight, JSON.stringify(a));
        for (const b of names_) test.check(`${a.text} meets ${b.text}`, a === b || a.left + a.width <= b.left || b.left + b.width <= a.left || a.top + a.height <= b.top || b.top + b.height <= a.top);
        if (numbered) test.check(`the number ${a.text} is not in the legend`, test.all(".legend button").some((b) => b.dataset.number === a.text));
    }
    /* The losses at the end: a row a variant, the least first, a dot a seed. */
    const rowsOf = test.all(".strip .row:not(.axis)");
    test.same("rows of losses", rowsOf.length, measured.length);
    test.same("dots", test.all(".strip .dot").length, measured.reduce((n, v) => n + v.valid_losses.length, 0));
    const ends = rowsOf.map((r) => Number(r.querySelector(".value").textContent.split(" ")[0]));
    test.check("losses are not in their order", ends.every((x, i) => !i || x >= ends[i - 1]), ends.join(" "));
    test.same("charts along the way", test.all(".charts .chart").length, Math.max(...data.variants.flatMap((v) => v.curves.map((c) => c.valid_step.length))) > 1 ? 2 : 1);
    const star = rows().filter((r) => r.children[2] && r.children[2].querySelector("b")).map((r) => r.dataset.name).join();
    test.same("the star of the loss", star, data.best || "");
    if (data.seeds.length < 2) test.same("a star of one seed", data.best, null);
    const toggle = test.one(".legend button"), label = canvases[1].getAttribute("aria-label");
    toggle.click();
    test.check("a hidden variant is still there", canvases[1].getAttribute("aria-label") !== label && !bubbles.getAttribute("aria-label").includes(`${measured[0].name}: `));
    toggle.click();
    test.same("and again", canvases[1].getAttribute("aria-label"), label);
    for (const theme of ["light", "dark", "auto"]) {
        test.one("#theme").click();
        test.check("the theme's button", test.one("#theme").textContent.endsWith(theme), test.one("#theme").textContent);
        test.common();
    }
});
