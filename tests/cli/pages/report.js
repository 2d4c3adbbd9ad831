/* report.js: goes through a page of training runs. EXPECTED: {runs, steps, samples, damaged}. */
test.run(async () => {
    await test.wait(300);
    const runs = page.data.runs, charts = test.all(".chart .frame canvas");
    test.same("runs", runs.length, EXPECTED.runs);
    test.same("rows of the table", test.one("table").querySelectorAll("tbody tr").length, EXPECTED.runs);
    if (EXPECTED.steps) test.same("the last step", runs[0].curves.step[runs[0].curves.step.length - 1], EXPECTED.steps);
    const states = test.all("tbody tr").slice(0, EXPECTED.runs).map((r) => r.lastChild.textContent);
    test.same("the state", states[0], EXPECTED.state || runs[0].state);
    test.check("a state that is none", states.every((s) => ["running", "done", "failed", "interrupted", "killed"].includes(s)), states.join());
    test.check("there are no charts", charts.length >= 4);
    test.common();
    for (const line of test.all("main li").map((l) => l.textContent).filter((t) => t.includes(" of memory")))
        test.check("memory in units of 1,024", /, [0-9.]+ [KMGT]iB of memory, /.test(line), line);
    for (const canvas of charts) {
        test.check(`${canvas.getAttribute("aria-label")} is not drawn`, test.colours(canvas) > 3, test.colours(canvas));
        test.check("the label of a chart", / over step: /.test(canvas.getAttribute("aria-label")), canvas.getAttribute("aria-label"));
    }
    test.same("charts of experts", charts.filter((c) => /^(Rows of the busiest expert|Experts without a row)/.test(c.getAttribute("aria-label"))).length, EXPECTED.loads || 0);
    charts[0].focus();
    test.press(charts[0], "Home");
    test.check("no tip", !test.one(".tip").hidden && /^step/.test(test.one(".tip").textContent), test.one(".tip").textContent);
    const begin = test.one(".tip").textContent;
    test.press(charts[0], "End");
    test.check("the arrow keys do not move", test.one(".tip").textContent !== begin);
    test.check("a screen reader hears nothing", test.one("#live").textContent.includes("step"));
    charts[0].blur();
    for (const axis of ["time", "tokens", "steps"]) {
        test.button(axis).click();
        test.same(`the button ${axis}`, test.button(axis).getAttribute("aria-pressed"), "true");
        test.check(`the axis ${axis}`, charts[0].getAttribute("aria-label").includes(` over ${axis === "steps" ? "step" : axis}: `), charts[0].getAttribute("aria-label"));
    }
    test.button("logarithmic").click();
    test.check("a logarithmic axis draws nothing", test.colours(charts[0]) > 3);
    test.button("linear").click();
    if (EXPECTED.runs > 1) {
        const toggle = test.one(".legend button");
        const before = charts[0].getAttribute("aria-label");
        toggle.click();
        test.same("the legend's button", toggle.getAttribute("aria-pressed"), "false");
        test.check("a hidden run is still there", charts[0].getAttribute("aria-label") !== before && !charts[0].getAttribute("aria-label").includes(`${runs[0].name},`), charts[0].getAttribute("aria-label"));
        toggle.click();
        test.same("and again", charts[0].getAttribute("aria-label"), before);
    }
    /* The table shows what the terminal does. */
    const cells = [...test.one("tbody tr").children].map((c) => c.textContent), s = runs[0].summary;
    for (const text of EXPECTED.shown || []) test.check(`the table does not show ${text}`, cells.some((c) => c.split(" ").includes(text)), cells.join(" | "));
    test.check("the table has another loss than the log", cells.includes(s.loss === null ? "–" : s.loss.toFixed(4)), cells.join(" | "));
    test.check("the title", !/run run/.test(document.title) && document.title.includes(EXPECTED.runs > 1 ? "training runs" : runs[0].name), document.title);
    test.check("the unit of the loss", charts[0].getAttribute("aria-label").startsWith(EXPECTED.unit || "Loss, nats a token over"), charts[0].getAttribute("aria-label"));
    test.same("lines that are explained", test.one(".key").querySelectorAll("li").length, runs.some((r) => r.evaluations.length) ? 3 : 2);
    test.same("options of each run", test.all("details.options").length, EXPECTED.runs);
    if (EXPECTED.best) test.check("the best", cells.some((c) => c.startsWith(EXPECTED.best)), cells.join(" | "));
    test.same("samples", runs[0].samples.length, EXPECTED.samples);
    if (EXPECTED.samples > 1) {
        const slider = test.one("input[type=range]"), latest = test.one("section pre").textContent;
        test.same("the latest sample", latest, runs[0].samples[EXPECTED.samples - 1].text);
        slider.value = "0";
        slider.dispatchEvent(new Event("input"));
        test.same("the first sample", test.one("section pre").textContent, runs[0].samples[0].text);
    }
    test.check("a foreign script ran", !window.injected);
    test.same("damaged lines", runs[0].damaged, EXPECTED.damaged);
    for (const theme of ["light", "dark", "auto"]) {
        test.one("#theme").click();
        test.check("the theme's button", test.one("#theme").textContent.endsWith(theme), test.one("#theme").textContent);
        test.common();
    }
});
