package web

import (
	"net/http"

	"github.com/google/uuid"
	"github.com/labstack/echo/v4"

	"fusebox/views"
	"fusebox/views/messages"
)

// registerTranslate adds the fragment with a provider's message in the reader's language.
func (s *Server) registerTranslate() {
	t := newTranslator(s.cfg)
	s.console.GET("/console/translate", func(c echo.Context) error { return s.translateMessage(c, t) })
}

// translateMessage answers with a payment's provider message, translated when the
// service can and marked "original" when not. Only stored messages are translated:
// the endpoint is no free translation service.
func (s *Server) translateMessage(c echo.Context, t *translator) error {
	id, err := uuid.Parse(c.QueryParam("payment"))
	if err != nil {
		return invalid("payment", "is not an id")
	}
	ctx := s.viewContext(c)
	p, err := s.cfg.Store.Payment(ctx, id)
	if err != nil {
		return err
	}
	lang := string(messages.From(ctx).Lang)
	text, from := t.translate(ctx, p.ProviderMessage, lang)
	s.metrics.calls.WithLabelValues(from).Inc()
	return s.render(c, http.StatusOK, views.Translation(views.TranslationView{
		Text: text, Original: from == fromOriginal, Lang: lang}))
}
