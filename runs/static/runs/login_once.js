// Browsers send no fragment to a server: the token reaches it in the form only.
const form = document.querySelector("form");
const token = location.hash.slice(1);
if (form) {
  form.elements.token.value = token;
  form.querySelector("button").disabled = token === "";
  if (token === "") {
    document.getElementById("words").textContent = "This link is incomplete: the part after # is missing.";
  }
}
