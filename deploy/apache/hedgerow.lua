-- Asks `hedgerow serve` about a request, before Apache decides where it goes. Used by forward-auth.conf.
--
-- Needs mod_lua and the Debian package lua-socket. A worker waits for the answer, at most TIMEOUT seconds for each step;
-- workers ask side by side.
local socket = require "socket"

local HOST, PORT, TIMEOUT = "127.0.0.1", 8090, 2
-- While Hedgerow is away the site stays open; false closes it (503) until Hedgerow is back.
local OPEN = true

-- What is said of the visitor is set here: what a client sends under these names does not get through. The rest concerns
-- one connection, or a body that is not sent along.
local OURS = {
    ["x-forwarded-for"] = true, ["x-forwarded-host"] = true, ["x-forwarded-proto"] = true,
    ["x-forwarded-uri"] = true, ["x-forwarded-method"] = true, ["x-hedgerow-ref"] = true, ["forwarded"] = true,
    ["x-real-ip"] = true, ["host"] = true, ["connection"] = true, ["content-length"] = true,
    ["transfer-encoding"] = true, ["expect"] = true, ["upgrade"] = true, ["te"] = true, ["keep-alive"] = true,
}

local function told(r)
    return {
        ["X-Forwarded-For"] = r.useragent_ip,
        ["X-Forwarded-Host"] = r.headers_in["Host"] or r.hostname or "",
        ["X-Forwarded-Proto"] = r.is_https and "https" or "http",
    }
end

-- The status and the headers of Hedgerow's answer, or nil.
local function ask(r)
    local connection = socket.tcp()
    connection:settimeout(TIMEOUT)
    if not connection:connect(HOST, PORT) then
        connection:close()
        return nil
    end
    local lines = { "GET /auth/later HTTP/1.1", "Host: hedgerow", "Connection: close" }
    for name, value in pairs(r:headers_in_table()) do
        if not OURS[name:lower()] then
            lines[#lines + 1] = name .. ": " .. value
        end
    end
    for name, value in pairs(told(r)) do
        lines[#lines + 1] = name .. ": " .. value
    end
    lines[#lines + 1] = "X-Forwarded-Method: " .. r.method
    lines[#lines + 1] = "X-Forwarded-Uri: " .. r.unparsed_uri
    connection:send(table.concat(lines, "\r\n") .. "\r\n\r\n")
    local first = connection:receive("*l")
    local status = first and tonumber(first:match("^HTTP/1%.%d (%d%d%d)"))
    local headers = {}
    while status do
        local line = connection:receive("*l")
        if not line or line == "" then
            break
        end
        local name, value = line:match("^([^:]+):%s*(.-)%s*$")
        if name then
            headers[name:lower()] = value
        end
    end
    connection:close()
    return status, headers
end

local function pass_to_hedgerow(r, path)
    for name, value in pairs(told(r)) do
        r.headers_in[name] = value
    end
    r.handler = "proxy-server"
    r.proxyreq = apache2.PROXYREQ_REVERSE
    r.filename = "proxy:http://" .. HOST .. ":" .. PORT .. path
    return apache2.OK
end

function decide(r)
    r.headers_in["X-Hedgerow-Ref"] = nil
    -- What a challenge needs: its script, and the answers to it.
    if r.uri:sub(1, 11) == "/.hedgerow/" then
        return pass_to_hedgerow(r, r.unparsed_uri)
    end
    local status, headers = ask(r)
    if status == 200 then
        return apache2.DECLINED
    end
    if status == 401 and headers["hedgerow-ref"] then
        -- The page for who is not let in, by the request as it is: a form comes along.
        r.headers_in["X-Hedgerow-Ref"] = headers["hedgerow-ref"]
        return pass_to_hedgerow(r, "/answer")
    end
    if status and status < 500 then
        -- Hedgerow does not trust this Apache: see trusted_proxies.
        return 403
    end
    return OPEN and apache2.DECLINED or 503
end
