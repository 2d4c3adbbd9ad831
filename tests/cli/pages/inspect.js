/* inspect.js: goes through the page of inspections. EXPECTED: {models, charts}. */
test.run(async () => {
    await test.wait(300);
    const models = page.data.models, charts = test.all(".chart canvas");
    test.same("models", models.length, EXPECTED.models);
    const experts = models.filter((m) => m.experts);
    test.same("tables", test.all("table:not(.experts)").length, EXPECTED.models);
    test.same("tables of experts", test.all("table.experts").length, experts.length);
    experts.forEach((m, i) => {
        const rows = [...test.all("table.experts")[i].querySelectorAll("tbody tr")];
        test.same(`blocks with experts of ${m.name}`, rows.length, m.experts.length);
        m.experts.forEach((of, k) => {
            test.same("rows of a block", of.rows.reduce((a, b) => a + b, 0), of.top_k * m.decoder_ids.length);
            const bars = rows[k].querySelector("canvas.bars");
            test.check("a block's bars are not drawn", test.colours(bars) > 1, test.colours(bars));
            test.check("the label of bars", bars.getAttribute("aria-label").endsWith(of.rows.join(", ")), bars.getAttribute("aria-label"));
        });
    });
    test.same("charts", charts.length, EXPECTED.charts);
    models.forEach((m, i) => test.same(`rows of ${m.name}`, test.all("table:not(.experts)")[i].querySelectorAll("tbody tr").length, m.rows.length));
    test.common();
    for (const canvas of charts) {
        test.check(`${canvas.getAttribute("aria-label")} is not drawn`, test.colours(canvas) > 3, test.colours(canvas));
        test.check("the label of a chart", / over block: /.test(canvas.getAttribute("aria-label")), canvas.getAttribute("aria-label"));
    }
    charts[0].focus();
    test.press(charts[0], "Home");
    test.check("no tip", !test.one(".tip").hidden && test.one(".tip").textContent.startsWith("block embedding"), test.one(".tip").textContent);
    charts[0].blur();
    const before = charts[0].getAttribute("aria-label");
    for (const stack of [...new Set(models.flatMap((m) => m.rows.map((r) => r.stack)))].sort()) {
        test.button(stack).click();
        test.same(`the button ${stack}`, test.button(stack).getAttribute("aria-pressed"), "true");
        for (const m of models) {
            const has = m.rows.some((r) => r.stack === stack);
            test.same(`${m.name} in the ${stack}`, charts[0].getAttribute("aria-label").includes(`${m.name} from`), has);
        }
    }
    test.button("decoder").click();
    test.same("the decoder again", charts[0].getAttribute("aria-label"), before);
    test.button("linear").click();
    test.check("a linear axis draws nothing", test.colours(charts[0]) > 3);
    const toggle = test.one(".legend button");
    toggle.click();
    test.check("a hidden model is still there", !charts[0].getAttribute("aria-label").includes(`${models[0].name} from`));
    toggle.click();
    test.check("a foreign script ran", !window.injected);
    for (const theme of ["light", "dark", "auto"]) {
        test.one("#theme").click();
        test.check("the theme's button", test.one("#theme").textContent.endsWith(theme), test.one("#theme").textContent);
        test.common();
    }
});
