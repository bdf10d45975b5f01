package web

import (
	"github.com/labstack/echo/v4"

	"fusebox/static"
)

// assetRoute is where the stylesheet, scripts and fonts are served.
const assetRoute = static.Prefix + "*"

// registerAssets mounts the embedded files.
func (s *Server) registerAssets() {
	s.public.GET(assetRoute, echo.WrapHandler(static.Handler()))
}
