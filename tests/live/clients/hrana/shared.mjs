// What the programs of this folder share. HRANA_URL says where: file:PATH, http://… or ws://…; HRANA_TOKEN is the token of a server.
export const url = process.env.HRANA_URL;
export const authToken = process.env.HRANA_TOKEN || undefined;
export const local = url.startsWith('file:');
export const path = url.slice('file:'.length);

const hex = (bytes) => `x'${Buffer.from(bytes).toString('hex')}'`;
const plain = (value) => {
  if (typeof value === 'bigint') return `${value}n`;
  if (value === undefined) return null;
  if (value instanceof ArrayBuffer) return hex(value);
  if (ArrayBuffer.isView(value)) return hex(value.buffer.slice(value.byteOffset, value.byteOffset + value.byteLength));
  if (value?.type === 'Buffer' && Array.isArray(value.data)) return hex(value.data);
  if (value instanceof Date) return value.toISOString();
  if (Array.isArray(value)) return Array.from(value, plain);
  if (value !== null && typeof value === 'object') return Object.fromEntries(Object.entries(value).filter(([name]) => name !== '_metadata').map(([name, held]) => [name, plain(held)]));
  return value;
};
const message = (error) => String(error.message).split('\n')[0].slice(0, 300);

// One line for each act: `NAME = ANSWER`, or `NAME ! CODE MESSAGE` where it failed.
export const say = async (name, act) => {
  try {
    console.log(name, '=', JSON.stringify(plain(await act())));
  } catch (error) {
    console.log(name, '!', error.code ?? error.name, message(error));
  }
};
