/* speed.js: how long a page took until it was there, and how long the slowest answer to a click takes; EXPECTED: {milliseconds}. */
(function () {
    const opened = performance.now();
    let slowest = 0;
    const timed = (act) => {
        const begin = performance.now();
        act();
        document.body.getBoundingClientRect(); /* with its layout */
        slowest = Math.max(slowest, performance.now() - begin);
    };
    for (const head of test.all(".head")) timed(() => head.click());
    timed(() => test.button("Matrix").click());
    for (const head of test.all(".head")) timed(() => head.click());
    timed(() => test.press(test.one(".matrix canvas"), "End"));
    timed(() => test.one("#theme").click());
    test.check("the page takes long to open, in milliseconds", opened <= EXPECTED.milliseconds, Math.round(opened));
    test.check("the page takes long to answer, in milliseconds", slowest <= EXPECTED.milliseconds, Math.round(slowest));
    test.run(() => console.log(`opened in ${Math.round(opened)} ms, slowest answer ${Math.round(slowest)} ms`));
})();
