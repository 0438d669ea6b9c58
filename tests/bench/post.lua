-- wrk: posts the JPEG that the environment's IMAGE names, or a form of as many of it as PER_REQUEST says, and reports in a
-- line that lib.sh reads. KEY is the key that it sends. Where HEADER_LENGTH is set the file is an inference request with JSON of so many bytes in front.
local file = assert(io.open(os.getenv("IMAGE"), "rb"))
local image, many = file:read("*a"), tonumber(os.getenv("PER_REQUEST") or "1")
file:close()
wrk.method = "POST"
if os.getenv("KEY") then
  wrk.headers["Authorization"] = "Bearer " .. os.getenv("KEY")
end
local header_length = os.getenv("HEADER_LENGTH")
if header_length then
  wrk.body = image
  wrk.headers["Inference-Header-Content-Length"] = header_length
elseif many == 1 then
  wrk.body = image
  wrk.headers["Content-Type"] = "image/jpeg"
else
  local boundary = "convoy-wrk-boundary"
  local part = "--" .. boundary .. '\r\nContent-Disposition: form-data; name="image"; filename="image.jpg"\r\n\r\n' ..
    image .. "\r\n"
  wrk.body = part:rep(many) .. "--" .. boundary .. "--\r\n"
  wrk.headers["Content-Type"] = "multipart/form-data; boundary=" .. boundary
end

function done(summary, latency)
  local errors = summary.errors
  -- A rate of forms is small: parts of one count.
  io.write(string.format("RESULT %." .. (many == 1 and 0 or 2) .. "f %.0f %.0f %d\n", summary.requests / summary.duration * 1e6,
    latency:percentile(50), latency:percentile(99),
    errors.connect + errors.read + errors.write + errors.status + errors.timeout))
end
