// Shows the OpenAPI document of the server.

window.SwaggerUIBundle({
  url: "openapi.json",
  dom_id: "#viewer",
  presets: [window.SwaggerUIBundle.presets.apis],
  // By default, Swagger UI sends the document to a validator of another host.
  validatorUrl: null,
});
