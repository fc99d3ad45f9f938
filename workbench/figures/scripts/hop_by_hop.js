// The paths from one token through a head's pattern, followed in the page (workbench.figures.hop_by_hop draws the same):
// the pattern comes once with the drawing, and hovering, hop and γ ask nothing of the server.
const EVERY = 420 // ms between two hops that play
const THIN = 0.01, FAINT = 0.05 // as in workbench.figures.hop_by_hop
const SMALL = 1e-5 // where the sum over hops ends

function hopByHop(parent, holder, svg, data) {
  parent.querySelector(".hops")?.remove()
  clearInterval(holder.playing)
  if (!data) return
  const still = data.cells !== undefined // a drawing of this alone, which always shows the hops of some token
  const kept = (holder.hopsKept ??= {})
  const state = { query: data.query, hop: still ? data.hops : 0, gamma: kept.gamma ?? data.gamma }
  const bar = controls(data, state)
  parent.insertBefore(bar.box, holder)
  const layer = svg.querySelector(".steps") ?? svg.insertBefore(tag("g", { class: "steps" }), svg.querySelector(".gutter"))
  const steps = stepsOf(data)
  // A layer without γ takes one step; what further ones would reach is shown to whoever asks.
  if (still) state.hop = data.own ? lastHop(data, steps(state.query), state.gamma) : 1

  const draw = () => {
    const { query, hop, gamma } = state
    bar.hop.value = hop
    bar.gamma.value = gamma
    bar.value.textContent = gamma.toFixed(2)
    const from = query ?? data.far
    const walk = steps(from)
    if (hop || still) layer.replaceChildren(...arcs(data, walk, hop, gamma), ...(still ? cells(data, walk, from, gamma) : arrivals(data, walk, hop)))
    else layer.replaceChildren()
    if (still) mark(svg, from)
    bar.says.textContent = hop ? inWords(data, walk, from, hop, gamma) : "Hover a token, or play, to follow its paths hop by hop."
  }
  const stop = () => {
    clearInterval(holder.playing)
    holder.playing = 0
    bar.play.textContent = "▶"
    bar.play.setAttribute("aria-label", "Play hop by hop")
  }
  const play = (then) => {
    stop()
    state.hop = 0
    if (matchMedia("(prefers-reduced-motion: reduce)").matches) state.hop = data.hops
    else {
      bar.play.textContent = "⏸"
      bar.play.setAttribute("aria-label", "Pause")
      holder.playing = setInterval(() => {
        state.hop += 1
        draw()
        if (state.hop >= lastHop(data, steps(state.query ?? data.far), state.gamma)) {
          stop()
          then?.()
        }
      }, EVERY)
      state.hop = 1
    }
    draw()
  }
  bar.play.onclick = () => (holder.playing ? stop() : play())
  bar.hop.oninput = () => {
    stop()
    state.hop = Number(bar.hop.value)
    draw()
  }
  bar.gamma.oninput = () => {
    state.gamma = kept.gamma = Number(bar.gamma.value)
    if (!state.hop || !data.own) state.hop = data.hops
    draw()
  }
  bar.own.onclick = () => {
    delete kept.gamma
    state.gamma = data.own
    draw()
  }
  for (const token of svg.querySelectorAll("[data-token]")) {
    const at = Number(token.dataset.token)
    token.addEventListener("pointerenter", () => {
      state.query = at
      play()
    })
    token.addEventListener("pointerleave", () => {
      if (still) return // the token that was pointed at last stays
      stop()
      state.query = data.query
      state.hop = 0
      draw()
    })
  }
  if (still) {
    svg.addEventListener("keydown", (event) => {
      const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key]
      if (!by) return
      event.preventDefault()
      state.query = Math.min(data.first + data.n - 1, Math.max(data.first, state.query + by))
      draw()
    })
  }
  draw()
}

// What is laid on the tokens at each hop: query -> [at hop 0, at hop 1, …], as `resolvent.steps`.
function stepsOf(data) {
  const rows = data.rows.map((flat) => {
    const row = []
    for (let i = 0; i < flat.length; i += 2) row.push([flat[i], flat[i + 1]])
    return row
  })
  const found = new Map()
  const step = (before, inner, edges) => {
    const next = new Float64Array(rows.length)
    for (let q = 0; q < before.length; q++) {
      if (before[q] < 1e-7) continue
      for (const [k, weight] of rows[q]) {
        if (inner && k === q) continue
        next[k] += before[q] * weight
        if (edges && k !== q) edges.push([q, k, before[q] * weight])
      }
    }
    return next
  }
  // Eq. 5 takes the pattern first and then A_s; Eq. 7 A_s first, and the pattern as the last step of every length.
  return (query) => {
    if (found.has(query)) return found.get(query)
    const start = new Float64Array(rows.length)
    start[query] = 1
    const walk = { at: [start], edges: [[]], rest: null, rows: rows.length, step }
    let front = start
    for (let hop = 1; hop <= data.hops; hop++) {
      const edges = []
      if (data.form === "eq7") {
        walk.at.push(step(front, false, edges))
        front = step(front, !data.diagonal)
      } else {
        front = step(front, hop > 1 && !data.diagonal, edges)
        walk.at.push(front)
      }
      walk.edges.push(edges)
    }
    found.set(query, walk)
    return walk
  }
}

// The row of the resolvent at γ, scaled to sum to 1.
function allHops(data, query, gamma, walk) {
  const total = new Float64Array(walk.rows)
  let front = walk.at[0], weight = 1
  for (let hop = 1; hop <= 2000 && weight > SMALL; hop++, weight *= gamma) {
    const eq7 = data.form === "eq7"
    const arrives = walk.step(front, !eq7 && hop > 1 && !data.diagonal)
    let mass = 0
    for (let i = 0; i < total.length; i++) {
      total[i] += weight * arrives[i]
      mass += arrives[i]
    }
    front = eq7 ? walk.step(front, !data.diagonal) : arrives
    if (mass < SMALL || gamma === 0) break
  }
  const sum = total.reduce((a, b) => a + b, 0) || 1
  return total.map((one) => one / sum)
}

function lastHop(data, walk, gamma) {
  let last = 1
  for (let hop = 1; hop <= data.hops; hop++) {
    if (walk.edges[hop].some(([, , weight]) => weight * gamma ** (hop - 1) >= THIN)) last = hop
  }
  return last
}

const column = (data, position) => data.x + (position - data.first) * data.column
const drawn = (data, position) => position >= data.first && position < data.first + data.n
const name = (data, position) => `${position}:${data.words[position]}`

function arcs(data, walk, hop, gamma) {
  const parts = []
  for (let h = 1; h <= hop; h++) {
    for (const [q, k, weight] of walk.edges[h]) {
      const flow = weight * gamma ** (h - 1)
      if (flow < THIN || !drawn(data, q) || !drawn(data, k)) continue
      const left = column(data, Math.min(q, k)), right = column(data, Math.max(q, k))
      const high = 10 + (data.arcs - 14) * Math.min(1, (Math.abs(q - k) / Math.max(8, data.n - 1)) ** 0.55)
      const down = data.base + high * 1.33
      parts.push(tag("path", {
        d: `M${left} ${data.base}C${left} ${down} ${right} ${down} ${right} ${data.base}`,
        class: "step", stroke: data.colours[h - 1], "stroke-width": 0.8 + 4.2 * Math.min(1, flow), opacity: 0.9,
        "data-tip": `hop ${h}: ${name(data, q)} reads ${name(data, k)}, weight ${flow.toFixed(3)}`,
      }))
    }
  }
  return parts
}

// Rings around the tokens that each hop has arrived at.
function arrivals(data, walk, hop) {
  const parts = []
  for (let h = 1; h <= hop; h++) {
    walk.at[h].forEach((share, i) => {
      if (share < FAINT || !drawn(data, i)) return
      parts.push(tag("circle", {
        cx: column(data, i), cy: data.base, r: 3 + 3 * share, fill: data.colours[h - 1], "pointer-events": "none",
      }))
    })
  }
  return parts
}

const hundredths = (share) => (share > 0 && share < 0.005 ? "<0.01" : share.toFixed(2))

// As `percent` of workbench/measurement/numbers.py writes a share: what is not quite none or all never rounds to it.
function percent(share) {
  const text = (100 * share).toFixed(1)
  if (share > 0 && share < 1 && (text === "0.0" || text === "100.0")) return share < 0.5 ? "<0.1%" : ">99.9%"
  return `${text.replace("-", "").replace(/\.0$/, "")}%`
}

function cells(data, walk, query, gamma) {
  const parts = []
  const row = (label, values, colour, number, due) => {
    const y = data.cells + number * data.cell
    for (let i = data.first; i < data.first + data.n; i++) {
      const tip = `${label}: ${percent(values[i])} at ${name(data, i)}` + (due.includes(i) ? ", a true ancestor" : "")
      parts.push(tag("rect", {
        x: column(data, i) - data.column / 2 + 1, y: y + 1, width: data.column - 2, height: data.cell - 2, rx: 3,
        fill: colour, "fill-opacity": Math.min(1, 0.04 + 0.66 * values[i]), "data-tip": tip,
        ...(due.includes(i) ? { stroke: data.due, "stroke-width": 2 } : {}),
      }))
      if (values[i] >= FAINT) {
        const label = tag("text", {
          x: column(data, i), y: y + data.cell / 2, "text-anchor": "middle", "dominant-baseline": "central",
          "font-size": 10.5, "pointer-events": "none",
        })
        label.textContent = (100 * values[i]).toFixed(0)
        parts.push(label)
      }
    }
  }
  for (let h = 1; h <= data.hops; h++) row(`hop ${h}`, walk.at[h], data.colours[h - 1], h - 1, due(data, query, h))
  row("all hops at γ", allHops(data, query, gamma, walk), data.total, data.hops, [])
  return parts
}

// The true ancestors of a query at a hop: a digit of a product rests on several digits.
const due = (data, query, hop) => data.gold.filter(([h, q]) => h === hop && q === query).map(([, , key]) => key)

function inWords(data, walk, query, hop, gamma) {
  const at = walk.at[hop]
  const top = at.reduce((best, share, i) => (share > at[best] ? i : best), 0)
  const weighs = hop === 1 ? "" : `; it weighs γ${hop === 2 ? "" : superscript(hop - 1)} = ${hundredths(gamma ** (hop - 1))} of the first`
  if (at[top] < THIN) return `${name(data, query)}: nothing arrives at hop ${hop}; its paths have ended.`
  const wanted = due(data, query, hop)
  const one = wanted.length === 1, all = percent(wanted.reduce((sum, key) => sum + at[key], 0))
  const named = wanted.map((key) => name(data, key)).join(", ")
  let truth = ""
  if (wanted.includes(top)) truth = one ? ", its true ancestor" : `; ${all} at the ${wanted.length} positions where the task's edges lead`
  else if (wanted.length) truth = one ? `, not its true ancestor ${named}` : `, not at ${named}, where the task's edges lead (${all} together)`
  return `${name(data, query)}, hop ${hop}: ${percent(at[top])} at ${name(data, top)}${truth}${weighs}.`
}

const superscript = (n) => String(n).replace(/\d/g, (digit) => "⁰¹²³⁴⁵⁶⁷⁸⁹"[digit])

function mark(svg, query) {
  for (const token of svg.querySelectorAll("[data-token]")) token.classList.toggle("followed", Number(token.dataset.token) === query)
}

function controls(data, state) {
  const box = make("div", { class: "hops" })
  const play = make("button", { class: "play", "aria-label": "Play hop by hop", title: "Play hop by hop" }, "▶")
  const hop = make("input", { type: "range", min: 0, max: data.hops, step: 1, "aria-label": "Hop" })
  const gamma = make("input", { type: "range", min: 0, max: 0.99, step: 0.01, "aria-label": "γ: the weight of each further hop" })
  const value = make("output", { class: "number" })
  const own = make("button", { class: "own", title: "back to the layer's own" }, data.own ? `own: ${data.own}` : "takes one step")
  const says = make("span", { class: "says", role: "status" })
  const label = (words, ...parts) => {
    const element = make("label", {}, words)
    element.append(...parts)
    return element
  }
  box.append(play, label("hop", hop), label("γ", gamma, value), own, says)
  return { box, play, hop, gamma, value, own, says }
}

function tag(kind, attributes) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", kind)
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value)
  return element
}
