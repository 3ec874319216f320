// Node's own HTTP server with the testbed's routes. Arguments: HOST PORT LARGE [faulty].
'use strict';

const fs = require('fs');
const http = require('http');

const [host, port, large, fault] = process.argv.slice(2);
const faulty = fault === 'faulty';
const STATUS = {
  '/ok': 200, '/healthz': 200, '/created': 201, '/empty': 204, '/moved': 301, '/missing': 404, '/fail': 500,
  '/unavailable': 503, '/large': 200, '/echo': 200, '/hints': 200, '/api/pay': faulty ? 500 : 200, '/api/cart': 200,
};

function answer(request, response) {
  const status = STATUS[request.url] ?? 404;
  const body = request.url === '/large' ? Buffer.alloc(Number(large), 'x') : 'ok\n';
  if (request.url === '/hints') {
    response.writeEarlyHints({ link: '</a.css>; rel=preload; as=style' });
    response.writeEarlyHints({ link: '</b.css>; rel=preload; as=style' });
  }
  fs.writeSync(1, `response ${status}\n`);
  const headers = status === 204 ? {} : { 'Content-Length': body.length };
  if (status === 301) headers.Location = '/ok';
  response.writeHead(status, headers);
  response.end(status === 204 ? undefined : body);
}

const server = http.createServer((request, response) => {
  if (request.url === '/drop' || (faulty && request.url === '/api/cart')) {
    request.socket.destroy();
  } else if (request.url === '/reset') {
    request.socket.resetAndDestroy();
  } else {
    request.resume().on('end', () => answer(request, response));
  }
});
server.keepAliveTimeout = 60000;
server.listen({ host, port: Number(port), ipv6Only: false, backlog: 256 });
