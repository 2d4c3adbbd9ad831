/* page.js: the parts of every page: its data, elements made from text and never from HTML, colours of the theme,
 * numbers for people, and sentences for screen readers. All pages share one global, `page`. */
"use strict";
const page = {
    data: JSON.parse(document.getElementById("data").textContent),
    main: document.getElementById("main"),

    /* An element: page.el("button", {class: "x", onclick: f}, "text", child). Attributes that are null or false are
     * left out. */
    el(name, attributes, ...children) {
        const element = document.createElement(name);
        for (const [key, value] of Object.entries(attributes || {})) {
            if (value === null || value === undefined || value === false) continue;
            if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
            else element.setAttribute(key, value === true ? "" : value);
        }
        element.append(...children.filter((child) => child !== null && child !== undefined));
        return element;
    },

    /* Says a sentence to a screen reader. */
    say(text) { document.getElementById("live").textContent = text; },

    /* A colour of the theme, "--ink", as the browser computes it. */
    colour(name) { return getComputedStyle(document.documentElement).getPropertyValue(name).trim(); },
    isDark() { return getComputedStyle(document.documentElement).colorScheme === "dark"; },

    /* Functions to call when the colours or the width change: draw(colours); colours: whether the colours changed. */
    redraws: [],
    redraw(colours) { for (const draw of page.redraws) draw(colours); },

    /* A canvas of the size that its element has on the screen, and its context in CSS pixels. */
    context(canvas, width, height) {
        const scale = window.devicePixelRatio || 1;
        canvas.width = Math.max(1, Math.round(width * scale));
        canvas.height = Math.max(1, Math.round(height * scale));
        const context = canvas.getContext("2d");
        context.scale(scale, scale);
        return context;
    },

    /* 1234567 -> "1,234,567"; 0.00123 -> "0.00123"; numbers that are not whole have 3 significant digits. */
    number(x, digits = 4) {
        if (x === null || x === undefined || !Number.isFinite(x)) return "–";
        if (Number.isInteger(x)) return x.toLocaleString("en-US");
        const size = Math.abs(x);
        if (size >= 1e5 || size < 1e-4) return x.toExponential(Math.max(0, digits - 2)).replace("e+", "e").replace("e-", "e−");
        return String(Number(x.toPrecision(digits)));
    },
    /* A number in three digits, as the terminal writes it: 837k, 2.50k, 97. */
    UNITS: ["", "k", "M", "G", "T", "P", "E"],
    short(x) {
        let unit = 0;
        if (x === null || x === undefined || !Number.isFinite(x)) return "–";
        while (Math.abs(x) >= 999.5 && unit < 6) { x /= 1000; unit++; }
        return x.toFixed(!unit || Math.abs(x) >= 100 ? 0 : Math.abs(x) >= 10 ? 1 : 2) + page.UNITS[unit];
    },
    bytes(x) {
        const units = ["bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
        let unit = 0;
        if (x === null || x === undefined || !Number.isFinite(x)) return "–";
        while (x >= 1023.5 && unit < 6) { x /= 1024; unit++; }
        return `${x.toFixed(unit && x < 99.95 ? 1 : 0)} ${units[unit]}`;
    },
    /* A loss or a metric, as the terminal writes it. */
    loss(x) { return x === null || x === undefined || !Number.isFinite(x) ? "–" : Math.abs(x) < 1e6 ? x.toFixed(4) : x.toPrecision(4); },
    duration(seconds) {
        if (seconds === null || !Number.isFinite(seconds)) return "–";
        if (seconds < 60) return `${Number(seconds.toPrecision(3))} s`;
        const two = (x) => String(Math.floor(x)).padStart(2, "0");
        const hours = Math.floor(seconds / 3600);
        return hours ? `${hours}:${two(seconds / 60 % 60)}:${two(seconds % 60)}` : `${Math.floor(seconds / 60)}:${two(seconds % 60)}`;
    },
    /* Seconds as the terminal writes them: whole ones, 0:05. */
    clock(seconds) {
        if (seconds === null || !Number.isFinite(seconds)) return "–";
        const total = Math.floor(seconds + .5), two = (x) => String(x).padStart(2, "0"), hours = Math.floor(total / 3600);
        return hours ? `${hours}:${two(Math.floor(total / 60) % 60)}:${two(total % 60)}` : `${Math.floor(total / 60)}:${two(total % 60)}`;
    },

    /* The texts of marks that are `step` apart: as many digits as tell them apart, in one unit. */
    marks: {
        number(list, step) {
            const most = Math.max(...list.map(Math.abs)), decimals = page.decimals(step);
            if (most > 0 && (most < 1e-4 || most >= 1e9)) {
                const digits = Math.max(0, Math.floor(Math.log10(most) + 1e-9) - Math.floor(Math.log10(step) + 1e-9));
                return list.map((t) => t === 0 ? "0" : t.toExponential(digits).replace("e+", "e").replace("e-", "e−"));
            }
            return list.map((t) => t.toLocaleString("en-US", { minimumFractionDigits: decimals, maximumFractionDigits: decimals }));
        },
        short(list, step) {
            const most = Math.max(...list.map(Math.abs));
            let unit = 0, size = 1;
            while (most >= 1000 * size && unit < 6) { size *= 1000; unit++; }
            const decimals = page.decimals(step / size);
            return list.map((t) => t === 0 ? "0" : (t / size).toFixed(decimals) + page.UNITS[unit]);
        },
        duration(list, step) {
            if (list[list.length - 1] >= 60 && step >= 1) return list.map(page.clock);
            const decimals = page.decimals(step);
            return list.map((t) => `${t.toFixed(decimals)} s`);
        },
    },
    decimals(step) { return step > 0 && Number.isFinite(step) ? Math.min(12, Math.max(0, -Math.floor(Math.log10(step) + 1e-9))) : 0; },

    /* A labelled <select>; options are [value, text]; choose(value) runs when it changes. */
    select(label, options, value, choose) {
        const list = page.el("select", { onchange: () => choose(list.value) },
            ...options.map(([v, text]) => page.el("option", { value: v, selected: String(v) === String(value) }, text)));
        return page.el("label", null, label, list);
    },

    /* Buttons of which one is pressed. */
    choice(label, options, value, choose) {
        const buttons = options.map(([v, text]) => page.el("button", {
            type: "button", "aria-pressed": String(v === value), "data-value": v,
            onclick: () => {
                for (const b of buttons) b.setAttribute("aria-pressed", String(b.dataset.value === v));
                choose(v);
            },
        }, text));
        return page.el("div", { class: "group", role: "group", "aria-label": label }, page.el("span", { "aria-hidden": "true" }, label),
            page.el("div", { class: "tabs" }, ...buttons));
    },

    /* The reader's choice stays when the page is loaded again, if the browser can store it. */
    recall(key, otherwise) {
        try {
            const text = sessionStorage.getItem(`qkv ${document.title} ${key}`);
            return text === null ? otherwise : JSON.parse(text);
        } catch (e) { return otherwise; }
    },
    remember(key, value) {
        /* not stored */
        try { sessionStorage.setItem(`qkv ${document.title} ${key}`, JSON.stringify(value)); } catch (e) { }
    },
};

(function theme() {
    const button = document.getElementById("theme");
    const names = { auto: "auto", light: "light", dark: "dark" };
    const order = ["auto", "light", "dark"];
    let now = "auto";
    try { now = localStorage.getItem("qkv theme") || "auto"; } catch (e) { /* not stored */ }
    function apply() {
        if (!names[now]) now = "auto";
        if (now === "auto") delete document.documentElement.dataset.theme;
        else document.documentElement.dataset.theme = now;
        button.textContent = `Colours: ${names[now]}`;
    }
    button.addEventListener("click", () => {
        now = order[(order.indexOf(now) + 1) % order.length];
        try { localStorage.setItem("qkv theme", now); } catch (e) { /* not stored */ }
        apply();
        page.redraw(true);
    });
    apply();
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => page.redraw(true));
    let width = 0;
    new ResizeObserver(() => {
        if (page.main.clientWidth === width) return;
        width = page.main.clientWidth;
        /* what is drawn may change the height, which is watched, too */
        requestAnimationFrame(() => page.redraw(false));
    }).observe(page.main);
})();
