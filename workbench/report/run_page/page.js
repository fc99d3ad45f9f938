// The page of one run: its drawings come packed in it, and nothing is asked of anywhere.
const at = (id) => document.getElementById(id)

function put(id, drawing, send = {}) {
  const place = at(id)
  if (!place || !drawing) return
  const data = { svg: drawing.svg, more: { ...drawing.data, clicks: id === "grid" } }
  clicks({ data, parentElement: place, setTriggerValue: (kind, value) => send[kind]?.(value) })
}

function start(page) {
  const state = { input: 0, head: page.first }
  const show = () => {
    const input = page.inputs[state.input], drawing = input.heads[state.head]
    put("canvas", drawing, { cell: () => (at("cell").textContent = at("canvas").querySelector(".cell.chosen").dataset.tip) })
    at("cell").textContent = ""
    at("canvas-title").textContent = drawing.title
    at("canvas-says").textContent = drawing.says
    at("which").textContent = `Input ${state.input + 1} of ${page.inputs.length}. ${input.says}`
    at("before").disabled = state.input === 0
    at("after").disabled = state.input === page.inputs.length - 1
    put("grid", input.grid, { cell: choose })
    for (const one of document.querySelectorAll("#grid .cell")) one.classList.toggle("chosen", one.dataset.cell === state.head)
    put("hops", input.hops)
  }
  const choose = ({ point, position }) => {
    if (`${point},${position}` in page.inputs[state.input].heads) state.head = `${point},${position}`
    show()
  }
  const step = (by) => {
    state.input += by
    show()
  }
  if (page.inputs.length) {
    at("before").onclick = () => step(-1)
    at("after").onclick = () => step(1)
    show()
  }
  if (page.film) film({ data: page.film.data, parentElement: at("film") })
  for (const [name, drawing] of Object.entries(page.charts)) put(name, drawing)
  put("circuit", page.circuit)
  for (const button of document.querySelectorAll("[data-file]")) {
    button.onclick = () => {
      const link = document.createElement("a")
      link.href = URL.createObjectURL(new Blob([page.files[button.dataset.file]], { type: "text/plain" }))
      link.download = button.dataset.file
      link.click()
      setTimeout(() => URL.revokeObjectURL(link.href), 1000)
    }
  }
}

async function unpack() {
  const bytes = Uint8Array.from(atob(at("packed").textContent), (letter) => letter.charCodeAt(0))
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).json()
}

unpack().then(start, () => document.querySelector("main").prepend("This browser cannot unpack the page's drawings; one of 2023 or later can."))
