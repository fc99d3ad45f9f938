// Keeps, in a cookie that ends with the browser, which evidence on the server is this browser's.
export default function ({ data }) {
  document.cookie = `${data.name}=${data.value}; path=/; SameSite=Strict`
}
