/* attend.js: goes through an attention page. EXPECTED is set by pages.sh: {heads, queries, keys, kinds, text, threshold}. */
/* The largest weight of every row of a head, read from the page's bytes. */
test.rowMaxima = (attention, head) => {
    const bytes = [...atob(head.weights)].map((c) => c.charCodeAt(0)), keys = page.data.tokens[attention.keys].ids.length, out = [];
    for (let at = 0, i = 0; at < bytes.length; i++) {
        let most = 0;
        if (page.data.kept) {
            for (let n = bytes[at], end = (at += 2, n); end > 0; end--) {
                while (bytes[at++] > 127);
                most = Math.max(most, bytes[at++]);
            }
        } else for (let n = attention.causal ? Math.min(i + 1, keys) : keys; n > 0; n--) most = Math.max(most, bytes[at++]);
        out.push((most / 255) ** 2);
    }
    return out;
};
test.run(async () => {
    await test.wait(300);
    const data = page.data, heads = test.all(".head");
    test.same("small pictures", heads.length, EXPECTED.heads);
    test.common();
    const first = data.attentions[0].heads[0];
    test.check("the first head has no entropy", Number.isFinite(first.entropy) && Number.isFinite(first.distance));
    const colours = () => test.colours(heads[0].querySelector("canvas"));
    for (let i = 0; i < 50 && colours() < EXPECTED.colours; i++) await test.wait(100); /* a browser draws when it has the time */
    test.check("the small pictures are not drawn", colours() >= EXPECTED.colours, colours());

    test.same("pictures that the tab key reaches", test.all(".head[tabindex='0']").length, 1);
    heads[0].focus();
    test.press(heads[0], "ArrowRight");
    test.same("the arrow key moves among the pictures", document.activeElement, heads[1]);
    test.press(heads[1], "End");
    test.same("to the last one", document.activeElement, heads[heads.length - 1]);

    /* Whatever the text holds is text. */
    const side = data.attentions[data.attentions.length - 1].queries;
    test.check("the text is not as it was", data.tokens[side].texts.join("").includes(EXPECTED.text), data.tokens[side].texts.join(""));
    test.check("foreign elements", !test.all("script").some((s) => s.textContent.includes("injected") && s.id !== "data" && !s.textContent.includes("EXPECTED")));
    test.check("a foreign script ran", !window.injected);

    /* The last head, by a click: lines and their filter. */
    heads[heads.length - 1].click();
    test.same("pressed pictures", test.all(".head[aria-pressed='true']").length, 1);
    const attention = data.attentions[data.attentions.length - 1], head = attention.heads[attention.heads.length - 1];
    test.check("the head's title", test.one("#one").textContent.endsWith(`layer ${attention.layer}, head ${head.head}`), test.one("#one").textContent);
    test.same("the title has the focus", document.activeElement, test.one("#one"));
    const left = test.all(".column.left .token"), right = test.all(".column.right .token");
    test.same("tokens that look", left.length, Math.min(120, EXPECTED.queries));
    test.same("tokens that are looked at", right.length, Math.min(120, EXPECTED.keys));
    test.check("no lines are drawn", test.colours(test.one(".columns canvas")) > 1);
    test.same("tokens that the tab key reaches", test.all(".token[tabindex='0']").length, 1);
    left[0].focus();
    test.check("the focus does not choose", left[0].classList.contains("chosen"));
    test.check("the reading of a token", /looks at/.test(test.one(".reading").textContent), test.one(".reading").textContent);
    test.same("a screen reader hears it", test.one("#live").textContent, test.one(".reading").textContent);
    if (data.kept) {
        left[left.length - 1].focus();
        test.check("the sum of the others", /; the other [0-9,]+ have [0-9.]+ % together$/.test(test.one(".reading").textContent), test.one(".reading").textContent);
        test.check("the page does not say what it keeps", test.one(".one .note").textContent.includes(`the ${data.kept} largest weights of each row, and the sum of the others`));
        left[0].focus();
    }
    /* The colours of the head end where nine rows in ten have their largest weight. */
    const scale = test.one(".one .ramp").textContent, most = parseFloat(scale.slice(1)), largest = test.rowMaxima(attention, head);
    test.check("too many rows beyond the scale", largest.filter((w) => w > most * 1.02).length <= .1 * largest.length, `${scale}: ${largest}`);
    test.check("too few rows reach the scale", largest.filter((w) => w >= most * .98).length >= .1 * largest.length, `${scale}: ${largest}`);
    test.same("whether the scale has an end", scale.endsWith("and more"), most < 1);
    if (left.length > 1) {
        test.press(left[0], "ArrowDown");
        test.same("the arrow key moves", document.activeElement, left[1]);
        test.press(left[1], "ArrowRight");
        test.same("to the other column", document.activeElement, right[1]);
        test.check("the reading of the other column", /is looked at by/.test(test.one(".reading").textContent));
    }

    /* The matrix, by keyboard: its numbers are those of the file. */
    test.button("Matrix").click();
    const matrix = test.one(".matrix canvas");
    test.check("the matrix is not drawn", test.colours(matrix) >= EXPECTED.colours, test.colours(matrix));
    const seen = matrix.getBoundingClientRect();
    test.check("the matrix is not seen whole", seen.height <= Math.max(innerHeight, 500) && seen.width <= innerWidth, `${seen.width} x ${seen.height}`);
    const { step, rows: rowLabels, columns: columnLabels } = matrix.labels;
    test.same("labels of the rows", rowLabels, Math.ceil(EXPECTED.queries / step));
    test.same("labels of the columns", columnLabels, Math.ceil(EXPECTED.keys / step));
    test.check("few labels", step === 1 || rowLabels >= 8, `${rowLabels}, every ${step}`);
    matrix.focus();
    test.press(matrix, "End");
    test.press(matrix, "Home");
    let read = test.one(".reading").textContent;
    test.check("the matrix does not begin at its corner", /^0 .* looks at 0 /.test(read), read);
    if (attention.causal) test.check("the first token looks at itself only", read.endsWith(": 1.000"), read);
    if (EXPECTED.queries > 1) {
        test.press(matrix, "ArrowDown");
        read = test.one(".reading").textContent;
        test.check("the arrow key does not move", /^1 .* looks at 0 /.test(read), read);
        const rows = EXPECTED.queries * 2, box = matrix.getBoundingClientRect();
        matrix.dispatchEvent(new PointerEvent("pointermove", { clientX: box.right - 1, clientY: box.bottom - 1, bubbles: true }));
        read = test.one(".reading").textContent;
        const near = Math.ceil(1.5 * Math.max(EXPECTED.keys / seen.width, EXPECTED.queries / seen.height)); /* cells below a pixel */
        const [, lastRow, lastColumn] = /^([0-9]+) .* looks at ([0-9]+) /s.exec(read);
        test.check("the pointer does not read the last cell", EXPECTED.queries - lastRow <= near && EXPECTED.keys - lastColumn <= near, read);
        test.check("rows", rows > 0);
    }

    /* Filters: kind, layer, head; the threshold; the table; the colours. */
    const choose = (select, value) => {
        select.value = value;
        select.dispatchEvent(new Event("change"));
    };
    const selects = test.all("select"), layer = selects[selects.length - 2], number = selects[selects.length - 1];
    choose(layer, String(attention.layer));
    test.same("heads of a layer", test.all(".head").length, data.attentions.filter((a) => a.layer === attention.layer).reduce((n, a) => n + a.heads.length, 0));
    choose(number, String(head.head));
    test.same("one head of a layer", test.all(".head").length, data.attentions.filter((a) => a.layer === attention.layer).length);
    if (EXPECTED.kinds > 1) {
        choose(selects[0], "cross");
        test.same("heads of a kind", test.all(".head").length, 1);
        choose(selects[0], "all");
    }
    choose(layer, "all");
    choose(number, "all");
    test.same("all heads again", test.all(".head").length, EXPECTED.heads);
    await test.wait(50);
    const before = test.colours(matrix), slider = test.one("#threshold");
    slider.value = "9";
    slider.dispatchEvent(new Event("input"));
    test.check("the threshold takes nothing away", test.colours(test.one(".matrix canvas")) <= before);
    test.same("what the slider says", slider.getAttribute("aria-valuetext"), "0.8");
    slider.value = "4";
    slider.dispatchEvent(new Event("input"));
    test.same("rows of the table", test.all("tbody tr").length, EXPECTED.heads);
    test.button("Entropy, bits").click();
    const entropies = test.all("tbody tr").map((row) => Number(row.children[3].textContent));
    test.check("the table is not sorted", entropies.every((v, i) => !i || v >= entropies[i - 1]), entropies.join(" "));
    for (const theme of ["light", "dark", "auto"]) {
        test.one("#theme").click();
        test.check("the theme's button", test.one("#theme").textContent.endsWith(theme), test.one("#theme").textContent);
        test.common();
    }
    test.button("Lines").click();
});
