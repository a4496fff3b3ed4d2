"""An MCP server that reads an aerodrome's weather out loud, as ATIS does.

Run it with ``python -m cordboard.mcp_servers.aviation_atis --config FILE``. It is an ordinary
stdio server on the official ``mcp`` SDK and imports nothing of the engine; any MCP client can
use it.

Steps of a report, one file each:

        metno / metar_file   where a METAR comes from (``sources`` holds what the two share)
        report_cache         keeps met.no's answers for some minutes, one request per aerodrome
        report               METAR text -> ``model.ParsedReport``, parsed by the ``metar`` library
        weather_words        present-weather groups -> words
        phrases, speech      ``ParsedReport`` -> sentences a controller would say
        service              applies an aerodrome's settings and refuses old or unreadable reports
        server               the MCP tools

Two promises hold throughout: the speech contains nothing that was not in the report or in the
settings, and no old observation is presented as a current one.
"""
