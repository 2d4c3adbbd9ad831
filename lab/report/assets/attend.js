/* attend.js: the attention page: small pictures of all heads, and one large head, as lines or as a matrix. */
"use strict";
(function () {
    const data = page.data;
    const kinds = { encoder: "Encoder", decoder: "Decoder", cross: "Cross attention" };
    const SMALL = 64; /* cells along a side of a small picture */

    /* ---- heads ---- */

    const visible = (text) => text.replace(/ /g, "␣").replace(/\n/g, "↵").replace(/\t/g, "⇥").replace(/\r/g, "␍") || "∅";
    const labels = {};
    for (const side of Object.keys(data.tokens)) labels[side] = data.tokens[side].texts.map(visible);

    function decode(text) {
        const bytes = atob(text), out = new Uint8Array(bytes.length);
        for (let i = 0; i < bytes.length; i++) out[i] = bytes.charCodeAt(i);
        return out;
    }

    /* The rows of a head of a long text: row i has the entries begin[i] to begin[i + 1]; the byte rest[i] is the sum
     * of all its other weights. */
    function unpack(bytes, rows) {
        const begin = new Uint32Array(rows + 1), rest = new Uint8Array(rows), keys = new Uint16Array(rows * data.kept), weights = new Uint8Array(rows * data.kept);
        let at = 0, entry = 0;
        for (let i = 0; i < rows; i++) {
            const n = bytes[at++];
            begin[i] = entry;
            rest[i] = bytes[at++];
            for (let k = 0, key = 0; k < n; k++) {
                let far = 0, shift = 0;
                while (bytes[at] > 127) { far |= (bytes[at++] & 127) << shift; shift += 7; }
                key += far | bytes[at++] << shift;
                keys[entry] = key;
                weights[entry++] = bytes[at++];
            }
        }
        begin[rows] = entry;
        return { begin, rest, keys, weights };
    }

    /* A head as a grid that finds its bytes in each of the stored forms (attention_view_page.c). */
    function makeHead(attention, stored) {
        const rows = labels[attention.queries], columns = labels[attention.keys];
        const head = {
            attention, head: stored.head, entropy: stored.entropy, distance: stored.distance,
            rows: rows.length, columns: columns.length, rowLabel: (i) => rows[i], columnLabel: (j) => columns[j],
            name: `${kinds[attention.kind]}, layer ${attention.layer}, head ${stored.head}`,
        };
        let bytes = null, sparse = null, top = 0;
        const loaded = () => bytes || (bytes = decode(stored.weights));
        const length = (i) => attention.causal ? Math.min(i + 1, columns.length) : columns.length;
        const start = (i) => attention.causal ? i * (i + 1) / 2 : i * columns.length;
        const rowsOf = () => sparse || (sparse = unpack(loaded(), rows.length));
        head.each = (i, take) => { /* the columns of a row that are not 0, with their bytes */
            if (!data.kept) {
                const all = loaded();
                for (let j = 0, at = start(i), n = length(i); j < n; j++) { if (all[at + j]) take(j, all[at + j]); }
            } else {
                const { begin, keys, weights } = rowsOf();
                for (let k = begin[i]; k < begin[i + 1]; k++) take(keys[k], weights[k]);
            }
        };
        /* For a long text: the number of keys of a row without a stored weight of their own, and the sum of these
         * weights. */
        head.others = (i) => {
            if (!data.kept) return [0, 0];
            const { begin, rest } = rowsOf();
            return [length(i) - (begin[i + 1] - begin[i]), weight(rest[i])];
        };
        /* The byte from which on all have the last colour: the largest byte of nine rows in ten is not larger. */
        head.top = () => {
            if (top) return top;
            const largest = new Uint8Array(rows.length);
            for (let i = 0; i < rows.length; i++) head.each(i, (j, q) => { if (q > largest[i]) largest[i] = q; });
            return (top = largest.sort()[Math.ceil(rows.length * .9) - 1] || 255);
        };
        head.entries = (i) => {
            const list = [];
            head.each(i, (j, q) => list.push([j, weight(q)]));
            return list;
        };
        head.byte = (i, j) => {
            let found = 0;
            head.each(i, (column, q) => { if (column === j) found = q; });
            return found;
        };
        head.fill = (take) => {
            const least = 255 * Math.sqrt(state.threshold || 0);
            for (let i = 0; i < head.rows; i++) head.each(i, (j, q) => { if (q >= least) take(i, j, q); });
        };
        return head;
    }
    const weight = (q) => (q / 255) ** 2;

    const heads = [];
    for (const kind of Object.keys(kinds))
        for (const attention of data.attentions.filter((a) => a.kind === kind)) for (const stored of attention.heads) heads.push(makeHead(attention, stored));
    const state = {
        kind: page.recall("kind", "all"), layer: page.recall("layer", "all"), head: page.recall("head", "all"),
        view: page.recall("view", "lines"), threshold: page.recall("threshold", null), chosen: null,
    };
    if (heads.length) state.chosen = heads[Math.min(page.recall("chosen", 0), heads.length - 1)];
    const shown = () => heads.filter((h) => (state.kind === "all" || h.attention.kind === state.kind) &&
        (state.layer === "all" || h.attention.layer === Number(state.layer)) && (state.head === "all" || h.head === Number(state.head)));

    /* ---- small pictures ---- */

    function paintSmall(head, canvas) {
        const rows = Math.min(SMALL, head.rows), columns = Math.min(SMALL, head.columns), out = new Uint8Array(rows * columns);
        for (let i = 0; i < head.rows; i++) {
            const to = Math.floor(i * rows / head.rows) * columns;
            head.each(i, (j, q) => {
                const at = to + Math.floor(j * columns / head.columns);
                if (q > out[at]) out[at] = q;
            });
        }
        heat.paint(canvas, out, rows, columns, head.top());
    }

    const pictures = page.el("div");
    const painted = new Map(); /* canvases that have been visible, and their heads */
    const watcher = new IntersectionObserver((found) => {
        for (const { target, isIntersecting } of found) {
            if (!isIntersecting || painted.has(target)) continue;
            painted.set(target, target.head);
            paintSmall(target.head, target);
        }
    }, { rootMargin: "200px" });
    page.redraws.push((colours) => {
        arrange();
        if (colours) for (const [canvas, head] of painted) paintSmall(head, canvas);
    });

    /* Places as many pictures in a row as fit, and about as many in each row. */
    function arrange() {
        for (const group of pictures.querySelectorAll(".heads")) {
            const count = group.children.length, most = Math.max(1, Math.floor(group.clientWidth / 62));
            group.style.gridTemplateColumns = `repeat(${Math.ceil(count / Math.ceil(count / most))}, minmax(0, 7rem))`;
        }
    }

    function small(head) {
        const canvas = page.el("canvas", { "aria-hidden": "true" });
        canvas.head = head;
        watcher.observe(canvas);
        const text = `head ${head.head}`;
        return page.el("button", {
            type: "button", class: "head", tabindex: head === state.chosen ? "0" : "-1", "aria-pressed": String(head === state.chosen),
            "aria-label": `${head.name}: entropy ${head.entropy.toFixed(2)} bits, mean distance ${head.distance.toFixed(1)} tokens`,
            title: `${head.name}\nentropy ${head.entropy.toFixed(2)} bits\nmean distance ${head.distance.toFixed(1)} tokens\ncolours to ${page.number(weight(head.top()), 2)}`,
            onclick: () => open(head, true),
        }, canvas, text, page.el("br"), `${head.entropy.toFixed(1)} b · ${head.distance.toFixed(head.distance < 99.95 ? 1 : 0)}`);
    }

    function fillPictures() {
        const groups = new Map();
        watcher.disconnect();
        painted.clear();
        for (const head of shown()) {
            if (!groups.has(head.attention)) groups.set(head.attention, []);
            groups.get(head.attention).push(head);
        }
        const children = [];
        let kind = null;
        for (const [attention, list] of groups) {
            if (attention.kind !== kind && Object.keys(data.tokens).length > 1) children.push(page.el("h2", null, kinds[attention.kind]));
            kind = attention.kind;
            children.push(page.el("div", { class: "layer" }, page.el("h3", null, `Layer ${attention.layer}`),
                page.el("div", { class: "heads", role: "group", "aria-label": `${kinds[kind]}, layer ${attention.layer}` }, ...list.map(small))));
        }
        if (!children.length) children.push(page.el("p", null, "No head has this kind, layer and number."));
        pictures.replaceChildren(...children);
        if (!pictures.querySelector(".head[tabindex='0']") && pictures.querySelector(".head")) pictures.querySelector(".head").tabIndex = 0;
        arrange();
    }

    /* The tab key reaches one picture, the arrow keys the others: up and down go to the layers before and after. */
    pictures.addEventListener("keydown", (event) => {
        const all = [...pictures.querySelectorAll(".head")], groups = [...pictures.querySelectorAll(".heads")];
        const at = all.indexOf(event.target), group = groups.indexOf(event.target.parentNode);
        if (at < 0) return;
        const place = [...event.target.parentNode.children].indexOf(event.target);
        const beside = (by) => groups[group + by] && groups[group + by].children[Math.min(place, groups[group + by].children.length - 1)];
        const to = { ArrowLeft: all[at - 1], ArrowRight: all[at + 1], ArrowUp: beside(-1), ArrowDown: beside(1), Home: all[0], End: all[all.length - 1] }[event.key];
        if (!to) return;
        event.preventDefault();
        for (const b of all) b.tabIndex = b === to ? 0 : -1;
        to.focus();
    });

    /* ---- one head ---- */

    const one = page.el("section", { class: "one", "aria-labelledby": "one" });
    const title = page.el("h2", { id: "one", tabindex: "-1" }), facts = page.el("p", { class: "note" });
    const reading = page.el("p", { class: "reading" }), place = page.el("div");
    let view = null;
    page.redraws.push((colours) => { /* a matrix is as wide as the window allows */
        if (view && !colours && state.view === "matrix") draw();
        else if (view) view.redraw();
    });

    const percent = (w) => w >= 0.0995 ? `${(100 * w).toFixed(0)} %` : `${(100 * w).toFixed(1)} %`;
    function readCell(head, i, j, spoken) {
        const q = head.byte(i, j), [count, rest] = head.others(i), missing = !q && count && !(head.attention.causal && j > i);
        const says = missing ? `one of ${page.number(count)} that have ${rest.toFixed(3)} together` : q ? weight(q).toFixed(3) : "0";
        reading.replaceChildren(`${i} `, page.el("b", null, head.rowLabel(i)), ` looks at ${j} `, page.el("b", null, head.columnLabel(j)), `: ${says}`);
        const found = [];
        head.each(i, (column, byte) => found.push([column, weight(byte)]));
        paintImage(head, found);
        if (spoken) page.say(reading.textContent);
    }
    function readToken(head, side, index) {
        const found = [];
        if (side === 0) head.each(index, (j, q) => found.push([j, weight(q)]));
        else for (let i = 0; i < head.rows; i++) head.each(i, (j, q) => { if (j === index) found.push([i, weight(q)]); });
        found.sort((a, b) => b[1] - a[1]);
        if (side === 0) paintImage(head, found);
        const label = side ? head.columnLabel : head.rowLabel, other = side ? head.rowLabel : head.columnLabel;
        const parts = [`${index} `, page.el("b", null, label(index)), side ? " is looked at by " : " looks at "];
        found.slice(0, 5).forEach(([at, w], n) => parts.push(n ? ", " : "", `${at} `, page.el("b", null, other(at)), ` ${percent(w)}`));
        if (!found.length) parts.push("no stored weight");
        if (found.length > 5) parts.push(` and ${found.length - 5} more`);
        const [count, rest] = side === 0 ? head.others(index) : [0, 0];
        if (count) parts.push(`; the other ${page.number(count)} have ${percent(rest)} together`);
        reading.replaceChildren(...parts);
        page.say(reading.textContent);
    }

    function draw() {
        const head = state.chosen;
        if (!head) return;
        title.textContent = head.name;
        facts.textContent = `Entropy ${head.entropy.toFixed(2)} bits: as if each token looked equally at ${page.number(2 ** head.entropy, 3)} others. ` +
            `Mean distance ${page.number(head.distance, 3)} tokens.` +
            (data.kept ? ` For a text this long, the page stores the ${data.kept} largest weights of each row, and the sum of the others.` : "");
        showScale(head);
        reading.textContent = head.rows === 1 && head.columns === 1 ? "One token: it can attend to itself only."
            : state.view === "lines" ? "Point at a token, or move with the arrow keys; a click fixes it." : "Point at a cell, or move with the arrow keys.";
        showThreshold(state.view === "lines" ? threshold(head) : state.threshold || 0);
        view = state.view === "lines" ? lines.make(head, threshold(head), (side, index) => readToken(head, side, index))
            : heat.matrix(head, place.clientWidth || 600, heightLeft(), (i, j, spoken) => readCell(head, i, j, spoken));
        place.replaceChildren(view.element);
        view.redraw();
        stay();
    }
    /* The height that the window has left for a picture, which should be visible as a whole. */
    function heightLeft() { return Math.max(260, innerHeight - (place.getBoundingClientRect().top - one.getBoundingClientRect().top) - 24); }
    /* A head that fits into the window stays there while the small pictures scroll. */
    function stay() { one.classList.toggle("stays", one.offsetHeight <= innerHeight); }
    addEventListener("resize", stay);
    function open(head, move) {
        state.chosen = head;
        page.remember("chosen", heads.indexOf(head));
        for (const b of pictures.querySelectorAll(".head")) b.setAttribute("aria-pressed", String(b.firstChild.head === head));
        for (const b of document.querySelectorAll("tr[data-head]")) b.classList.toggle("best", Number(b.dataset.head) === heads.indexOf(head));
        draw();
        if (!move) return;
        page.say(`${head.name} is open`);
        const box = one.getBoundingClientRect();
        if (box.top < 0 || box.top > innerHeight * .6) one.scrollIntoView({ block: "start" });
        title.focus({ preventScroll: true });
    }
    function step(by) {
        const list = shown(), at = list.indexOf(state.chosen);
        if (list.length) open(list[(at + by + list.length) % list.length], false);
    }

    /* ---- controls and the table ---- */

    const unique = (list) => [...new Set(list)];
    const set = (key, value) => {
        state[key] = value;
        page.remember(key, value);
    };
    const filter = (key) => (value) => {
        set(key, value);
        fillPictures();
        const list = shown();
        if (list.length && !list.includes(state.chosen)) open(list[0], false);
        page.say(`${list.length} heads are shown`);
    };
    const steps = [0, .005, .01, .02, .05, .1, .2, .3, .5, .8];

    /* Until the reader chooses a threshold: the highest one with two lines for each query, or with one. */
    function threshold(head) {
        if (state.threshold !== null) return state.threshold;
        const counts = steps.map(() => 0);
        for (let i = 0; i < head.rows; i++) head.each(i, (j, q) => { for (let s = 0; s < steps.length && weight(q) >= steps[s]; s++) counts[s]++; });
        for (const lines of [2, 1]) for (let s = steps.length - 1; s > 0; s--) if (counts[s] >= lines * head.rows) return steps[s];
        return 0;
    }
    const scale = heat.legend();
    const showScale = (head) => scale.show(weight(head.top()), head.top() < 255);
    const slider = page.el("input", { type: "range", min: "0", max: String(steps.length - 1), step: "1", id: "threshold" });
    const sliderValue = page.el("output");
    function showThreshold(value) {
        slider.value = String(Math.max(0, steps.indexOf(value)));
        slider.setAttribute("aria-valuetext", String(value));
        sliderValue.textContent = String(value);
    }
    slider.addEventListener("input", () => {
        set("threshold", steps[slider.value]);
        showThreshold(state.threshold);
        if (view && state.view === "lines") view.threshold = state.threshold;
        if (view) view.redraw();
    });
    function controls() {
        const all = (name, list) => [["all", `all ${name}`], ...list];
        const kindList = unique(heads.map((h) => h.attention.kind));
        const layerList = unique(heads.map((h) => h.attention.layer)).sort((a, b) => a - b);
        const headList = unique(heads.map((h) => h.head)).sort((a, b) => a - b);
        return page.el("div", { class: "controls", role: "group", "aria-label": "which heads" },
            kindList.length > 1 ? page.select("Kind", all("kinds", kindList.map((k) => [k, kinds[k]])), state.kind, filter("kind")) : null,
            page.select("Layer", all("layers", layerList.map((l) => [l, `layer ${l}`])), state.layer, filter("layer")),
            page.select("Head", all("heads", headList.map((h) => [h, `head ${h}`])), state.head, filter("head")),
            page.el("span", { class: "note" }, "Below each head: its entropy in bits · its mean distance in tokens. Its colours end where nine rows in ten have their largest weight."));
    }
    function headControls() {
        return page.el("div", { class: "controls" },
            page.choice("Show as", [["lines", "Lines"], ["matrix", "Matrix"]], state.view, (v) => { set("view", v); draw(); }),
            page.el("div", { class: "group" }, "Colours of this head", scale.element),
            page.el("label", { for: "threshold" }, page.el("span", null, "Weights from ", sliderValue), slider),
            page.el("div", { class: "tabs" }, page.el("button", { type: "button", "aria-label": "previous head", onclick: () => step(-1) }, "←"),
                page.el("button", { type: "button", "aria-label": "next head", onclick: () => step(1) }, "→")));
    }

    function table() {
        let order = null, up = true;
        const body = page.el("tbody");
        const columns = [["Attention", (h) => kinds[h.attention.kind]], ["Layer", (h) => h.attention.layer], ["Head", (h) => h.head],
            ["Entropy, bits", (h) => h.entropy], ["Mean distance, tokens", (h) => h.distance]];
        function fill() {
            const list = heads.slice();
            if (order) list.sort((a, b) => (order(a) < order(b) ? -1 : order(a) > order(b) ? 1 : 0) * (up ? 1 : -1));
            body.replaceChildren(...list.map((h) => page.el("tr", { "data-head": heads.indexOf(h), class: h === state.chosen ? "best" : null },
                page.el("td", null, kinds[h.attention.kind]), page.el("td", null, String(h.attention.layer)),
                page.el("td", null, page.el("button", { type: "button", "aria-label": `open ${h.name}`, onclick: () => open(h, true) }, String(h.head))),
                page.el("td", null, h.entropy.toFixed(3)), page.el("td", null, h.distance.toFixed(2)))));
        }
        const headings = columns.map(([name, key]) => {
            const heading = page.el("th", { scope: "col" });
            heading.append(page.el("button", {
                type: "button", onclick: () => {
                    up = order === key ? !up : true;
                    order = key;
                    for (const h of headings) h.removeAttribute("aria-sort");
                    heading.setAttribute("aria-sort", up ? "ascending" : "descending");
                    fill();
                },
            }, name));
            return heading;
        });
        fill();
        return page.el("details", null, page.el("summary", null, "All heads as a table"),
            page.el("div", { class: "scroll" }, page.el("table", null, page.el("thead", null, page.el("tr", null, ...headings)), body)));
    }

    /* An image in patches: the picture that a side has read, and over it the weights of a query, if there are any. */
    function imageOf(image, texts) {
        const scale = Math.max(1, Math.floor(224 / Math.max(image.width, image.height))), canvas = page.el("canvas", { role: "img", "aria-label": `the image, in ${texts.length} positions` });
        canvas.width = image.width * scale;
        canvas.height = image.height * scale;
        const context = canvas.getContext("2d"), columns = Math.floor(image.width / image.patch), patches = columns * Math.floor(image.height / image.patch), before = texts.length - patches;
        function paint(weights, top) {
            for (let i = 0; i < image.width * image.height; i++) {
                const c = image.channels === 3 ? image.bytes.slice(3 * i, 3 * i + 3) : [image.bytes[i], image.bytes[i], image.bytes[i]];
                context.fillStyle = `rgb(${c.join(",")})`;
                context.fillRect(i % image.width * scale, Math.floor(i / image.width) * scale, scale, scale);
            }
            const side = image.patch * scale;
            for (let p = 0; p < patches; p++) {
                const x = p % columns * side, y = Math.floor(p / columns) * side, weight = weights ? weights.get(p + before) || 0 : 0;
                if (weight > 0) {
                    context.fillStyle = `rgba(255, 120, 0, ${(0.75 * weight / top).toFixed(3)})`;
                    context.fillRect(x, y, side, side);
                }
                context.strokeStyle = "rgba(128, 128, 128, 0.6)";
                context.strokeRect(x + 0.5, y + 0.5, side - 1, side - 1);
            }
        }
        paint(null, 1);
        return { element: canvas, paint };
    }
    const images = {};
    for (const side of Object.keys(data.tokens)) if (data.tokens[side].image) images[side] = imageOf(data.tokens[side].image, data.tokens[side].texts);
    /* The weights of a query, on the image of its keys. */
    function paintImage(head, found) {
        const image = images[head.attention.keys];
        if (image) image.paint(new Map(found), found.reduce((most, [, w]) => Math.max(most, w), 1e-9));
    }
    const whatRead = (side) => data.tokens[side].image ? "Image" : data.tokens[side].ids ? "Text" : "Input";

    function texts() {
        const names = { encoder: data.tokens.decoder ? "Source" : whatRead("encoder"), decoder: data.tokens.encoder ? (data.greedy ? "Target, found by greedy search" : "Target") : whatRead("decoder") };
        return page.el("details", null, page.el("summary", null, "What the model reads"),
            ...Object.keys(data.tokens).map((side) => page.el("div", null, page.el("h3", null, `${names[side]}, ${data.tokens[side].texts.length} ${data.tokens[side].ids ? "tokens" : "positions"}`),
                page.el("pre", null, data.tokens[side].texts.join(data.tokens[side].ids ? "" : " ")))));
    }

    one.append(title, facts, headControls(), reading, place, ...Object.values(images).map((image) => page.el("p", null, image.element)));
    page.main.append(controls(), page.el("div", { class: "sides" },
        page.el("section", { "aria-label": "all heads" }, pictures, table(), texts()), one));
    fillPictures();
    draw();
})();
