// Shows what the server says of its API.

window.SwaggerUIBundle({
  url: "openapi.json",
  dom_id: "#viewer",
  presets: [window.SwaggerUIBundle.presets.apis],
  // Swagger's own service would otherwise be sent the description, to check it.
  validatorUrl: null,
});
