// Browsers do not send the fragment to the server, so the form submits the token.
const form = document.querySelector("form");
const token = location.hash.slice(1);
if (form) {
  form.elements.token.value = token;
  // A browser carries the fragment over redirects: the token would stay in the address.
  history.replaceState(null, "", location.pathname + location.search);
  form.querySelector("button").disabled = token === "";
  if (token === "") {
    document.getElementById("words").textContent = "This link is incomplete: the part after # is missing.";
  }
}
