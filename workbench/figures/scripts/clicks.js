// A drawing (workbench.figures.Drawing) that answers to hovering, clicks and arrow keys. The SVG comes from the
// workbench, which escapes every word in it; clicks send only what the drawing's data attributes hold.
const STEPS = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }  // rows and columns
const WAIT = 90  // ms between the last arrow key and asking for that cell

export default function (component) {
  const { data, parentElement, setTriggerValue } = component
  let holder = parentElement.querySelector(".holder")
  if (!holder) {
    holder = make("div", { class: "holder" })
    const bigger = make("button", { class: "bigger", title: "maximise (Esc to leave)" }, "⤢")
    bigger.onclick = () => (document.fullscreenElement ? document.exitFullscreen() : holder.requestFullscreen())
    parentElement.append(holder, bigger)
    holder.append(make("div", { class: "tip", "aria-live": "polite" }))
  }
  if (holder.drawn !== data.svg) {
    const old = holder.querySelector("svg"), focused = old && old === parentElement.activeElement
    old?.remove()
    holder.insertAdjacentHTML("beforeend", data.svg)
    holder.drawn = data.svg
    wire(holder, data.more?.clicks ?? true)
    if (data.more?.grid) walkGrid(holder, holder.querySelector("svg"), data.more.grid)
    hopByHop(parentElement, holder, holder.querySelector("svg"), data.more?.rows ? data.more : null)
    if (focused) {
      holder.querySelector("svg").focus({ preventScroll: true }) // the arrow keys go on walking
      if (holder.at) standOn(holder, holder.querySelector("svg"), holder.at)
    }
  }
  holder.send = setTriggerValue
}

function wire(holder, clicks) {
  const svg = holder.querySelector("svg"), gutter = svg.querySelector(".gutter"), tip = holder.querySelector(".tip")
  const wide = svg.viewBox.baseVal.width, scale = () => svg.clientWidth / wide
  svg.setAttribute("tabindex", "0")
  svg.style.setProperty("--wide", wide)
  const follow = () => gutter?.setAttribute("transform", `translate(${holder.scrollLeft / scale()} 0)`)
  holder.onscroll = follow
  const focus = svg.querySelector("[data-focus]")
  if (focus) holder.scrollLeft = focus.getBBox().x * scale() - holder.clientWidth / 2
  follow()
  svg.onpointermove = (event) => {
    const at = event.target.closest("[data-tip],[data-name]")
    highlight(svg, "near", at?.dataset.name)
    showTip(tip, at && (at.dataset.tip ?? linesOf(svg, at.dataset.name)[0].dataset.tip), event.clientX + 14, event.clientY + 18)
  }
  svg.onpointerleave = () => {
    highlight(svg, "near")
    showTip(tip)
  }
  svg.onblur = () => showTip(tip)
  for (const end of svg.querySelectorAll("[data-token],[data-node]")) {
    end.onpointerenter = () => light(svg, end.dataset.token ?? end.dataset.node)
    end.onpointerleave = () => light(svg, null)
  }
  dragEdges(holder, svg, clicks)
  svg.onclick = (event) => {
    const at = event.target.closest("[data-cell],[data-token],[data-edge],[data-name]")
    if (at && clicks) choose(holder, svg, at)
  }
  svg.onkeydown = (event) => {
    const step = STEPS[event.key]
    if (event.key === "Escape" && clicks && !document.fullscreenElement) holder.send("token", { position: null })
    if ((event.key === "Enter" || event.key === " ") && clicks) {
      const name = svg.querySelector(".edge.at")?.dataset.name
      if (name) event.preventDefault(), holder.send("name", { name })
    }
    if (!step) return
    event.preventDefault()
    if (svg.querySelector("[data-rank]")) walkEdges(holder, svg, step[0] + step[1])
    const from = svg.querySelector(".cell.chosen") ?? svg.querySelector(".cell")
    if (!from) return
    const [row, column] = from.dataset.cell.split(",").map(Number)
    const cells = [...svg.querySelectorAll(".cell")]
    const beyond = "wraps" in from.dataset ? cells[cells.indexOf(from) + step[1]] : null // on to the next layer's heads
    const to = svg.querySelector(`.cell[data-cell="${row + step[0]},${column + step[1]}"]`) ?? beyond
    if (to) choose(holder, svg, to, WAIT)
  }
}

// The lines of an edge of a circuit: one, or one to each head that shares its keys and values.
function linesOf(svg, name) {
  return [...svg.querySelectorAll(".edge[data-name]")].filter((edge) => edge.dataset.name === name)
}

function highlight(svg, kind, name) {
  for (const old of svg.querySelectorAll(`.edge.${kind}`)) old.classList.remove(kind)
  if (name) for (const line of linesOf(svg, name)) line.classList.add(kind)
}

// To the edge whose score is next in size: down and right to smaller ones. Enter then does what a click does.
function walkEdges(holder, svg, by) {
  const edges = [...svg.querySelectorAll("[data-rank]")].sort((a, b) => a.dataset.rank - b.dataset.rank)
  const names = [...new Set(edges.map((edge) => edge.dataset.name))]
  const next = names.indexOf(holder.at) + by
  standOn(holder, svg, names[Math.max(0, Math.min(names.length - 1, next))])
}

function standOn(holder, svg, name) {
  holder.at = name
  highlight(svg, "at", name)
  const line = linesOf(svg, name)[0]
  if (!line) return
  const box = line.getBoundingClientRect()
  showTip(holder.querySelector(".tip"), line.dataset.tip, box.right + 8, box.top + box.height / 2)
}

function light(svg, position) {
  svg.classList.toggle("focused", position !== null)
  for (const edge of svg.querySelectorAll(".edge")) {
    edge.classList.toggle("lit", edge.dataset.q === position || Boolean(edge.dataset.ends?.split(" ").includes(position)))
  }
}

function choose(holder, svg, at, wait = 0) {
  if (at.dataset.cell) {
    for (const old of svg.querySelectorAll(".cell.chosen")) old.classList.remove("chosen")
    at.classList.add("chosen")
    at.setAttribute("stroke-width", "2.5")
    clearTimeout(holder.waiting)
    const cell = { point: at.dataset.point, position: Number(at.dataset.cell.split(",")[1]) }
    holder.waiting = setTimeout(() => holder.send("cell", cell), wait)
  } else if (at.dataset.token) {
    holder.send("token", { position: Number(at.dataset.token) })
  } else if (at.dataset.name) {
    holder.send("name", { name: at.dataset.name })
  } else {
    const [query, key] = at.dataset.edge.split(",").map(Number)
    holder.send("edge", { query, key })
  }
}

// A map (figures.token_circuit), whose cells are pixels of a picture: where the pointer or the arrow keys are, they say
// what the cell holds; a click or an arrow key chooses it.
function walkGrid(holder, svg, words) {
  const grid = svg.querySelector("[data-grid]"), tip = holder.querySelector(".tip")
  const [rows, columns] = grid.dataset.grid.split(",").map(Number)
  const wide = grid.width.baseVal.value / columns, tall = grid.height.baseVal.value / rows
  const frame = svg.querySelector("[data-at]")
  const within = (place, n) => Math.max(0, Math.min(n - 1, Math.floor(place)))
  const says = ([row, column]) => {
    const value = words.values?.[row][column]
    return `${words.rows[row]} → ${words.columns[column]}${value === undefined ? "" : `: ${value} ${words.units}`}`
  }
  const stand = (at, wait) => {
    frame.dataset.at = at.join(",")
    const side = frame.width.baseVal.value
    frame.setAttribute("x", grid.x.baseVal.value + (at[1] + 0.5) * wide - side / 2)
    frame.setAttribute("y", grid.y.baseVal.value + (at[0] + 0.5) * tall - side / 2)
    frame.setAttribute("stroke-opacity", 1)
    clearTimeout(holder.waiting)
    holder.waiting = setTimeout(() => holder.send("cell", { point: String(at[0]), position: at[1] }), wait)
  }
  const under = (event) => {
    const box = grid.getBoundingClientRect()
    return [within((event.clientY - box.top) / box.height * rows, rows), within((event.clientX - box.left) / box.width * columns, columns)]
  }
  grid.onpointermove = (event) => {
    event.stopPropagation()
    showTip(tip, says(under(event)), event.clientX + 14, event.clientY + 18)
  }
  grid.onclick = (event) => stand(under(event), 0)
  svg.onkeydown = (event) => {
    const step = STEPS[event.key]
    if (!step) return
    event.preventDefault()
    const from = frame.dataset.at.split(",").map(Number)
    const to = [within(from[0] + step[0], rows), within(from[1] + step[1], columns)]
    stand(to, WAIT)
    const box = frame.getBoundingClientRect()
    showTip(tip, says(to), box.right + 8, box.bottom + 4)
  }
}

const FAR = 6  // pixels that an edge is moved before it is dragged and not clicked

// An edge of attention that is dragged to a token, or to a cell above or below it, is moved to that key.
function dragEdges(holder, svg, clicks) {
  let edge = null, from = null, line = null
  const inDrawing = (event) => new DOMPoint(event.clientX, event.clientY).matrixTransform(svg.getScreenCTM().inverse())
  const under = (event) => {
    const at = svg.getRootNode().elementsFromPoint(event.clientX, event.clientY)
      .map((one) => one.closest("[data-token],[data-cell]")).find((one) => one && svg.contains(one))
    return at && Number(at.dataset.token ?? at.dataset.cell.split(",")[1])
  }
  const end = () => {
    line?.remove()
    svg.classList.remove("dragging")
    for (const old of svg.querySelectorAll(".target")) old.classList.remove("target")
    edge = line = null
  }
  svg.onpointerdown = (event) => {
    edge = clicks && event.button === 0 ? event.target.closest("[data-edge]") : null
    from = [event.clientX, event.clientY]
    if (edge) event.preventDefault() // no text is selected
  }
  svg.addEventListener("pointermove", (event) => {
    if (!edge || (!line && Math.hypot(event.clientX - from[0], event.clientY - from[1]) < FAR)) return
    const [query, key] = edge.dataset.edge.split(",").map(Number)
    if (!line) {
      line = document.createElementNS("http://www.w3.org/2000/svg", "path")
      line.setAttribute("class", "drag")
      svg.append(line)
      svg.classList.add("dragging")
    }
    const start = svg.querySelector(`[data-token="${query}"]`).getBBox(), to = inDrawing(event), at = under(event)
    line.setAttribute("d", `M${start.x + start.width / 2} ${start.y + start.height}L${to.x} ${to.y}`)
    for (const old of svg.querySelectorAll(".target")) old.classList.remove("target")
    if (at !== undefined && at <= query && at !== key) svg.querySelector(`[data-token="${at}"]`)?.classList.add("target")
  })
  svg.onpointerup = (event) => {
    if (!edge || !line) return end()
    const [query, key] = edge.dataset.edge.split(",").map(Number), to = under(event)
    svg.addEventListener("click", (click) => click.stopImmediatePropagation(), { capture: true, once: true })
    setTimeout(() => svg.dispatchEvent(new Event("click")), 0) // takes that listener away where no click follows
    end()
    if (to !== undefined && to <= query && to !== key) holder.send("move", { query, key, to })
  }
  svg.onpointercancel = end
}
