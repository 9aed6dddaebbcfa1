---@meta ipulua
-- Annotations of ipu for the Lua language server; written by `make docs`.

---@class ipulua.Tensor: userdata
---@field shape integer[]
---@field dtype string
---@field rank integer
---@field size integer
---@field T ipulua.Tensor
---@operator add(ipulua.Tensor|number): ipulua.Tensor
---@operator sub(ipulua.Tensor|number): ipulua.Tensor
---@operator mul(ipulua.Tensor|number): ipulua.Tensor
---@operator div(ipulua.Tensor|number): ipulua.Tensor
---@operator mod(ipulua.Tensor|number): ipulua.Tensor
---@operator pow(ipulua.Tensor|number): ipulua.Tensor
---@operator idiv(ipulua.Tensor|number): ipulua.Tensor
---@operator unm: ipulua.Tensor
local Tensor = {}
---@return number|boolean
function Tensor:item() end
---@return any
function Tensor:totable() end
---@return any
function Tensor:tolist() end

local ipu = {}
ipu.linalg = {}
ipu.nn = {}
ipu.random = {}

---|x|.
---Shapes: `any`
---@param x ipulua.Tensor|number|table
---@return ipulua.Tensor
function ipu.abs(x) end

---The angle in [0, pi] radians whose cosine is x.
---Shapes: `any`
---@param x ipulua.Tensor|number|table
---@return ipulua.Tensor
function ipu.acos(x) end

---a + b.
---Shapes: `a, b → broadcast`
---@param a ipulua.Tensor|number|table
---@param b ipulua.Tensor|number|table
---@return ipulua.Tensor
function ipu.add(a, b) end

---The values of all replicas, stacked along a new first axis.
---Shapes: `[...] → [replicas, ...]`
---* `replication_factor`: how many replicas there are; known by default
---@param x ipulua.Tensor|number|table
---@param options? {replication_factor?: integer}
---@return ipulua.Tensor
function ipu.all_gather(x, options) end

---Replica i gets block i of every replica's split, joined in the order of replicas.
---Shapes: `[..., split, ..., concat, ...] → [..., split / replicas, ..., concat * replicas, ...]`
---* `split_dimension`: the axis that is split
---* `concat_dimension`: the axis that the blocks are joined along
---* `replication_factor`: how many replicas there are; known by default
---@param x ipulua.Tensor|number|table
---@param options {split_dimension: integer, concat_dimension: integer, replication_factor?: integer}
---@return ipulua.Tensor
function ipu.all_to_all(x, options) end

---Position of the greatest element along an axis, int32; the first of equals.
---Shapes: `[...] → without axis`
---* `axis`: axis to search
---@param x ipulua.Tensor|number|table
---@param options? {axis?: integer}
---@return ipulua.Tensor
function ipu.argmax(x, options) end

---Position of the smallest element along an axis, int32; the first of equals.
---Shapes: `[...] → without axis`
---* `axis`: axis to search
---@param x ipulua.Tensor|number|table
---@param options? {axis?: integer}
---@return ipulua.Tensor
function ipu.argmin(x, options) end

---Positions, int32, that put an axis in order; equals keep theirs.
---Shapes: `any`
---* `axis`: to sort along
---* `direction`: which end comes first
---@param x ipulua.Tensor|number|table
---@param options? {axis?: integer, direction?: "ASCENDING"|"DESCENDING"}
---@return ipulua.Tensor
function ipu.argsort(x, options) end

---The angle in [-pi/2, pi/2] radians whose sine is x.
---Shapes: `any`
---@param x ipulua.Tensor|number|table
---@return ipulua.Tensor
function ipu.asin(x) end

---The value itself, promised to be equal on all replicas.
---Shapes: `[...]`
---* `inplace`: kept because scripts say it
---@param x ipulua.Tensor|number|table
---@param options? {inplace?: boolean}
---@return ipulua.Tensor
function ipu.assume_equal_across_replicas(x, options) end

---The angle in (-pi/2, pi/2) radians whose tangent is x.
---Shapes: `any`
---@param x ipulua.Tensor|number|table
---@return ipulua.Tensor
function ipu.atan(x) end

---The angle of the point (b, a), in [-pi, pi] radians.
---Shapes: `a, b → broadcast`
---@param a ipulua.Tensor|number|table
---@param b ipulua.Tensor|number|table
---@return ipulua.Tensor
function ipu.atan2(a, b) end

---Repeated along missing axes and axes of 1.
---Shapes: `[...] → shape`
---* `shape`: of the result
---@param x ipulua.Tensor|number|table
---@param options {shape: integer|integer[]}
---@return ipulua.Tensor
function ipu.broadcast_to(x, options) end

---x as another dtype; to int32 and int64 it truncates towards zero and saturates (NaN: the smallest); int8 and uint8 are the low bits of that int32.
---Shapes: `any`
---* `dtype`: of the result
---@param x ipulua.Tensor|number|table
---@param options {dtype: string}
---@return ipulua.Tensor
function ipu.cast(x, options) end

---The least integer not below x.
---Shapes: `any`
---@param x ipulua.Tensor|number|table
---@return ipulua.Tensor
function ipu.ceil(x) end

---The lower triangular L with L L^T = a, for symmetric positive definite matrices; of others (a + a^T) / 2 counts.
---Shapes: `[…, n, n] → […, n, n]`
---@param a ipulua.Tensor|number|table
---@return ipulua.Tensor
function ipu.cholesky(a) end

---A list of the tensors, scaled down so that the norm of all is clip_norm at most; and that norm before.
---Shapes: `any × n → the same, []`
---* `clip_norm`: greatest norm, not negative
---@param tensors ipulua.Tensor[]
---@param options {clip_norm: number}
---@return ipulua.Tensor ...
function ipu.clip_by_global_norm(tensors, options) end

---x scaled down to a norm of clip_norm at most, over all elements or some axes.
---Shapes: `any`
---* `clip_norm`: greatest norm, not negative
---* `axes`: axes of a vector; all when absent
---@param x ipulua.Tensor|number|table
---@param options {clip_norm: number, axes?: integer|integer[]}
---@return ipulua.Tensor
function ipu.clip_by_norm(x, options) end

---min(max(x, min), max); NaN stays.
---Shapes: `any`
---* `min`: the least result
---* `max`: the greatest
---@param x ipulua.Tensor|number|table
---@param options {min: number, max: number}
---@return ipulua.Tensor
function ipu.clip_by_value(x, options) end

---Tensors joined along an axis, one after the other.
---Shapes: `[..., n, ...], [..., m, ...] → [..., n+m, ...]`
---* `axis`: the axis that grows
---@param tensors ipulua.Tensor[]
---@param options {axis: integer}
---@return ipulua.Tensor
function ipu.concat(tensors, options) end

---The cosine; x in radians.
---Shapes: `any`
---@param x ipulua.Tensor|number|table
---@return ipulua.Tensor
function ipu.cos(x) end

---The hyperbolic cosine.
---Shapes: `any`
---@param x ipulua.Tensor|number|table
---@return ipulua.Tensor
function ipu.cosh(x) end

---The mean over the replicas, or over the replicas of each group; shares are made before they are added.
---Shapes: `[...]`
---* `replica_group_size`: replicas of a group; all of them by default
---* `replica_group_type`: whether a group's members are neighbours, or as far apart as there are groups
---@param x ipulua.Tensor|number|table
---@param options? {replica_group_size?: integer, replica_group_type?: "CONSECUTIVE"|"ORTHOGONAL"}
---@return ipulua.Tensor
function ipu.cross_replica_mean(x, options) end

---The sum over the replicas, or over the replicas of each group.
---Shapes: `[...]`
---* `replica_group_size`: replicas of a group; all of them by default
---* `replica_group_type`: whether a group's members are neighbours, or as far apart as there are groups
---@param x ipulua.Tensor|number|table
---@param options? {replica_group_size?: integer, replica_group_type?: "CONSECUTIVE"|"ORTHOGONAL"}
---@return ipulua.Tensor
function ipu.cross_replica_sum(x, options) end

---Running products along an axis.
---Shapes: `any`
---* `axis`: axis to run along
---* `exclusive`: leave each element out of its own result
---* `reverse`: from the end
---@param x ipulua.Tensor|number|table
---@param options? {axis?: integer, exclusive?: boolean, reverse?: boolean}
---@return ipulua.Tensor
function ipu.cumprod(x, options) end

---Running sums along an axis.
---Shapes: `any`
---* `axis`: axis to run along
---* `exclusive`: leave each element out of its own result
---* `reverse`: from the end
---@param x ipulua.Tensor|number|table
---@param options? {axis?: integer, exclusive?: boolean, reverse?: boolean}
---@return ipulua.Tensor
function ipu.cumsum(x, options) end

---a / b; two integers give float32.
---Shapes: `a, b → broadcast`
---@param a ipulua.Tensor|number|table
---@param b ipulua.Tensor|number|table
---@return ipulua.Tensor
function ipu.div(a, b) end

---Sums of products named by indices: 'ij,jk->ik' is the matrix product; without -> the result has the indices that stand once.
---Shapes: `as the equation says`
---* `equation`: indices of operands -> of the result
---@param tensors ipulua.Tensor[]
---@param options {equation: string}
---@return ipulua.Tensor
function ipu.einsum(tensors, options) end

---Rows of a table, by id; one outside is an error.
---Shapes: `[rows, ...], [ids] → [ids, ...]`
---* `serialization_factor`: parts that the table is looked up in, one after the other; divides its rows
---@param table ipulua.Tensor|number|table
---@param ids ipulua.Tensor|number|table
---@param options? {serialization_factor?: integer}
---@return ipulua.Tensor
function ipu.embedding_lookup(table, ids, options) end

---a = b.
---Shapes: `a, b → broadcast, bool`
---@param a ipulua.Tensor|number|table
---@param b ipulua.Tensor|number|table
---@return ipulua.Tensor
function ipu.equal(a, b) end

---The error function.
---Shapes: `any`
---@param x ipulua.Tensor|number|table
---@return ipulua.Tensor
function ipu.erf(x) end

---e^x.
---Shapes: `any`
---@param x ipulua.Tensor|number|table
---@return ipulua.Tensor
function ipu.exp(x) end

---A new axis of 1.
---Shapes: `[...] → [..., 1, ...]`
---* `axis`: where the new axis stands in the result
---@param x ipulua.Tensor|number|table
---@param options {axis: integer}
---@return ipulua.Tensor
function ipu.expand_dims(x, options) end

---e^x - 1, exact near 0.
---Shapes: `any`
---@param x ipulua.Tensor|number|table
---@return ipulua.Tensor
function ipu.expm1(x) end

---n_bins numbers in even steps from the least to the greatest element.
---Shapes: `[n] → [n_bins]`
---* `n_bins`: how many, at least 1
---@param x ipulua.Tensor|number|table
---@param options {n_bins: integer}
---@return ipulua.Tensor
function ipu.fixed_width_bins(x, options) end

---The greatest integer not above x.
---Shapes: `any`
---@param x ipulua.Tensor|number|table
---@return ipulua.Tensor
function ipu.floor(x) end

---floor(a / b); for integers 0 where b is 0.
---Shapes: `a, b → broadcast`
---@param a ipulua.Tensor|number|table
---@param b ipulua.Tensor|number|table
---@return ipulua.Tensor
function ipu.floordiv(a, b) end

---Slices of x along an axis, by index; one outside is an error.
---Shapes: `[a, n, b], [...] → [a, ..., b]`
---* `axis`: to index
---@param x ipulua.Tensor|number|table
---@param indices ipulua.Tensor|number|table
---@param options? {axis?: integer}
---@return ipulua.Tensor
function ipu.gather(x, indices, options) end

---Slices of x by tuples of k indices, along its first k axes; one outside is an error.
---Shapes: `[k axes…, rest…], [..., k] → [..., rest…]`
---@param x ipulua.Tensor|number|table
---@param indices ipulua.Tensor|number|table
---@return ipulua.Tensor
function ipu.gather_nd(x, indices) end

---a > b.
---Shapes: `a, b → broadcast, bool`
---@param a ipulua.Tensor|number|table
---@param b ipulua.Tensor|number|table
---@return ipulua.Tensor
function ipu.greater(a, b) end

---a ≥ b.
---Shapes: `a, b → broadcast, bool`
---@param a ipulua.Tensor|number|table
---@param b ipulua.Tensor|number|table
---@return ipulua.Tensor
function ipu.greater_equal(a, b) end

---How many elements lie below the first level, between levels, at or above the last; float32.
---Shapes: `[n], [levels] → [levels + 1]`
---* `absolute_of_input`: count magnitudes
---@param x ipulua.Tensor|number|table
---@param levels ipulua.Tensor|number|table
---@param options? {absolute_of_input?: boolean}
---@return ipulua.Tensor
function ipu.histogram(x, levels, options) end

---A histogram divided by its sum.
---Shapes: `[n]`
---@param hist ipulua.Tensor|number|table
---@return ipulua.Tensor
function ipu.histogram_normalize(hist) end

---A histogram with more elements counted in.
---Shapes: `[levels + 1], [n], [levels] → [levels + 1]`
---* `absolute_of_input`: count magnitudes
---@param hist ipulua.Tensor|number|table
---@param x ipulua.Tensor|number|table
---@param levels ipulua.Tensor|number|table
---@param options? {absolute_of_input?: boolean}
---@return ipulua.Tensor
function ipu.histogram_update(hist, x, levels, options) end

---x itself.
---Shapes: `any`
---@param x ipulua.Tensor|number|table
---@return ipulua.Tensor
function ipu.identity(x) end

---Whether x is neither infinite nor not a number.
---Shapes: `any`
---@param x ipulua.Tensor|number|table
---@return ipulua.Tensor
function ipu.is_finite(x) end

---Whether x is infinite.
---Shapes: `any`
---@param x ipulua.Tensor|number|table
---@return ipulua.Tensor
function ipu.is_inf(x) end

---Whether x is not a number.
---Shapes: `any`
---@param x ipulua.Tensor|number|table
---@return ipulua.Tensor
function ipu.is_nan(x) end

---a < b.
---Shapes: `a, b → broadcast, bool`
---@param a ipulua.Tensor|number|table
---@param b ipulua.Tensor|number|table
---@return ipulua.Tensor
function ipu.less(a, b) end

---a ≤ b.
---Shapes: `a, b → broadcast, bool`
---@param a ipulua.Tensor|number|table
---@param b ipulua.Tensor|number|table
---@return ipulua.Tensor
function ipu.less_equal(a, b) end

---x with L Lᵀ x = rhs, of the lower triangular L that cholesky gives; what stands above its diagonal isn't read.
---Shapes: `[…, n, n], […, n, k] → […, n, k]`
---@param chol ipulua.Tensor|number|table
---@param rhs ipulua.Tensor|number|table
---@return ipulua.Tensor
function ipu.linalg.cholesky_solve(chol, rhs) end

---The determinant of each matrix; the gradient at a singular one is an error.
---Shapes: `[…, n, n] → […]`
---@param x ipulua.Tensor|number|table
---@return ipulua.Tensor
function ipu.linalg.det(x) end

---The eigenvalues of symmetric matrices, rising, and their eigenvectors, the columns of v, whose greatest entry is positive; of others (x + xᵀ) / 2 counts.
---Shapes: `[…, n, n] → […, n], […, n, n]`
---@param x ipulua.Tensor|number|table
---@return ipulua.Tensor
---@return ipulua.Tensor
function ipu.linalg.eigh(x) end

---The exponential of each matrix, I + x + x²/2 + x³/6 and so on.
---Shapes: `[…, n, n] → […, n, n]`
---@param x ipulua.Tensor|number|table
---@return ipulua.Tensor
function ipu.linalg.expm(x) end

---The inverse of each matrix; a singular one is an error.
---Shapes: `[…, n, n] → […, n, n]`
---* `adjoint`: of the transposed matrix
---@param x ipulua.Tensor|number|table
---@param options? {adjoint?: boolean}
---@return ipulua.Tensor
function ipu.linalg.inv(x, options) end

---x with the least ‖matrix x - rhs‖² + l2_regularizer ‖x‖²; of fewer rows than columns the least x. Full rank is expected: pinv takes any.
---Shapes: `[…, m, n], […, m, k] → […, n, k]`
---* `l2_regularizer`: the weight of x's own size
---@param matrix ipulua.Tensor|number|table
---@param rhs ipulua.Tensor|number|table
---@param options? {l2_regularizer?: number}
---@return ipulua.Tensor
function ipu.linalg.lstsq(matrix, rhs, options) end

---How many singular values are greater than tol.
---Shapes: `[…, m, n] → […]`
---* `tol`: max(m, n) times the precision times the greatest singular value by default
---@param a ipulua.Tensor|number|table
---@param options? {tol?: number}
---@return ipulua.Tensor
function ipu.linalg.matrix_rank(a, options) end

---The pseudo-inverse: singular values up to rcond times the greatest count as 0.
---Shapes: `[…, m, n] → […, n, m]`
---* `rcond`: 10 max(m, n) times the precision by default
---@param a ipulua.Tensor|number|table
---@param options? {rcond?: number}
---@return ipulua.Tensor
function ipu.linalg.pinv(a, options) end

---x = q r with columns of q that are orthonormal and an upper triangular r, whose diagonal isn't negative.
---Shapes: `[…, m, n] → […, m, min(m, n)], […, min(m, n), n]`
---@param x ipulua.Tensor|number|table
---@return ipulua.Tensor
---@return ipulua.Tensor
function ipu.linalg.qr(x) end

---The sign and the logarithm of the magnitude of each determinant; 0 and -inf of singular matrices, at which the gradient is an error.
---Shapes: `[…, n, n] → […], […]`
---@param x ipulua.Tensor|number|table
---@return ipulua.Tensor
---@return ipulua.Tensor
function ipu.linalg.slogdet(x) end

---x with matrix x = rhs, by elimination; a singular matrix is an error.
---Shapes: `[…, n, n], […, n, k] → […, n, k]`
---* `adjoint`: solve with the transposed matrix
---@param matrix ipulua.Tensor|number|table
---@param rhs ipulua.Tensor|number|table
---@param options? {adjoint?: boolean}
---@return ipulua.Tensor
function ipu.linalg.solve(matrix, rhs, options) end

---x = u diag(s) vᵀ, s falling; the greatest entry of each column of u is positive.
---Shapes: `[…, m, n] → […, min(m, n)], […, m, min(m, n)], […, n, min(m, n)]`
---* `compute_uv`: false: s alone
---@param x ipulua.Tensor|number|table
---@param options? {compute_uv?: boolean}
---@return ipulua.Tensor ...
function ipu.linalg.svd(x, options) end

---The natural logarithm.
---Shapes: `any`
---@param x ipulua.Tensor|number|table
---@return ipulua.Tensor
function ipu.log(x) end

---log(1 + x), exact near 0.
---Shapes: `any`
---@param x ipulua.Tensor|number|table
---@return ipulua.Tensor
function ipu.log1p(x) end

---Whether both hold.
---Shapes: `a, b → broadcast, bool`
---@param a ipulua.Tensor|number|table
---@param b ipulua.Tensor|number|table
---@return ipulua.Tensor
function ipu.logical_and(a, b) end

---Whether x is false.
---Shapes: `any`
---@param x ipulua.Tensor|number|table
---@return ipulua.Tensor
function ipu.logical_not(x) end

---Whether any of the two holds.
---Shapes: `a, b → broadcast, bool`
---@param a ipulua.Tensor|number|table
---@param b ipulua.Tensor|number|table
---@return ipulua.Tensor
function ipu.logical_or(a, b) end

---Whether exactly one holds.
---Shapes: `a, b → broadcast, bool`
---@param a ipulua.Tensor|number|table
---@param b ipulua.Tensor|number|table
---@return ipulua.Tensor
function ipu.logical_xor(a, b) end

---The product of matrices; leading extents broadcast.
---Shapes: `[…, m, k], […, k, n] → […, m, n]`
---* `transpose_a`: a's last two axes are swapped
---* `transpose_b`: b's last two axes are swapped
---@param a ipulua.Tensor|number|table
---@param b ipulua.Tensor|number|table
---@param options? {transpose_a?: boolean, transpose_b?: boolean}
---@return ipulua.Tensor
function ipu.matmul(a, b, options) end

---The greater of a and b; the gradient of equals goes to a.
---Shapes: `a, b → broadcast`
---@param a ipulua.Tensor|number|table
---@param b ipulua.Tensor|number|table
---@return ipulua.Tensor
function ipu.maximum(a, b) end

---The smaller of a and b; the gradient of equals goes to a.
---Shapes: `a, b → broadcast`
---@param a ipulua.Tensor|number|table
---@param b ipulua.Tensor|number|table
---@return ipulua.Tensor
function ipu.minimum(a, b) end

---a - b floor(a / b), with b's sign; for integers 0 where b is 0.
---Shapes: `a, b → broadcast`
---@param a ipulua.Tensor|number|table
---@param b ipulua.Tensor|number|table
---@return ipulua.Tensor
function ipu.mod(a, b) end

---a b.
---Shapes: `a, b → broadcast`
---@param a ipulua.Tensor|number|table
---@param b ipulua.Tensor|number|table
---@return ipulua.Tensor
function ipu.mul(a, b) end

----x.
---Shapes: `any`
---@param x ipulua.Tensor|number|table
---@return ipulua.Tensor
function ipu.neg(x) end

---The mean of each window; padding doesn't count.
---Shapes: `[n, spatial…, c] → [n, spatial'…, c]`
---* `ksize`: The window's extents, at least 1: one, or one for each spatial axis.
---* `strides`: Steps between windows, at least 1; by default ksize.
---* `padding`: VALID: only whole windows; SAME: the extent divided by the stride, rounding up.
---@param x ipulua.Tensor|number|table
---@param options? {ksize?: integer|integer[], strides?: integer|integer[], padding?: "VALID"|"SAME"}
---@return ipulua.Tensor
function ipu.nn.avg_pool(x, options) end

---Normalises each channel, by mean and variance of the batch or by given ones; then gamma and beta. Returns y, mean, variance; those of float16 and bfloat16 are float32.
---Shapes: `[…, c], [c], [c], [c], [c] → […, c], [c], [c]`
---* `axis`: The channels.
---* `epsilon`: Added to the variance.
---* `training`: Statistics of the batch, though mean and variance are given.
---@param x ipulua.Tensor|number|table
---@param gamma ipulua.Tensor|number|table
---@param beta ipulua.Tensor|number|table
---@param mean? ipulua.Tensor|number|table
---@param variance? ipulua.Tensor|number|table
---@param options? {axis?: integer, epsilon?: number, training?: boolean}
---@return ipulua.Tensor
---@return ipulua.Tensor
---@return ipulua.Tensor
function ipu.nn.batch_norm(x, gamma, beta, mean, variance, options) end

---x + bias, the bias along the last axis.
---Shapes: `[…, n], [n] → […, n]`
---@param x ipulua.Tensor|number|table
---@param bias ipulua.Tensor|number|table
---@return ipulua.Tensor
function ipu.nn.bias_add(x, bias) end

---Convolution of sequences. CAUSAL padding stands in front only.
---Shapes: `[n, t, c], [k, c / groups, d] → [n, t', d]`
---* `strides`: Steps between windows, at least 1: one, or one for each spatial axis.
---* `padding`: VALID: only whole windows; SAME: zeros around, so that the extent is divided by the stride, rounding up.
---* `dilations`: Steps between the taps of a window, at least 1.
---* `groups`: Parts of the channels that are convolved apart; divides them.
---@param x ipulua.Tensor|number|table
---@param kernel ipulua.Tensor|number|table
---@param options? {strides?: integer|integer[], padding?: "VALID"|"SAME"|"CAUSAL", dilations?: integer|integer[], groups?: integer}
---@return ipulua.Tensor
function ipu.nn.conv1d(x, kernel, options) end

---The adjoint of a convolution: spreads each element over a window.
---Shapes: `[n, t, c], [k, d, c] → [n, t', d]`
---* `strides`: Steps between windows, at least 1: one, or one for each spatial axis.
---* `padding`: VALID: only whole windows; SAME: zeros around, so that the extent is divided by the stride, rounding up.
---* `output_padding`: Extra extent at the end, less than the stride.
---* `dilations`: Steps between the taps of a window, at least 1.
---@param x ipulua.Tensor|number|table
---@param kernel ipulua.Tensor|number|table
---@param options? {strides?: integer|integer[], padding?: "VALID"|"SAME", output_padding?: integer|integer[], dilations?: integer|integer[]}
---@return ipulua.Tensor
function ipu.nn.conv1d_transpose(x, kernel, options) end

---Convolution of channels-last images.
---Shapes: `[n, h, w, c], [kh, kw, c / groups, d] → [n, h', w', d]`
---* `strides`: Steps between windows, at least 1: one, or one for each spatial axis.
---* `padding`: VALID: only whole windows; SAME: zeros around, so that the extent is divided by the stride, rounding up.
---* `dilations`: Steps between the taps of a window, at least 1.
---* `groups`: Parts of the channels that are convolved apart; divides them.
---@param x ipulua.Tensor|number|table
---@param kernel ipulua.Tensor|number|table
---@param options? {strides?: integer|integer[], padding?: "VALID"|"SAME", dilations?: integer|integer[], groups?: integer}
---@return ipulua.Tensor
function ipu.nn.conv2d(x, kernel, options) end

---The adjoint of a convolution: spreads each element over a window.
---Shapes: `[n, h, w, c], [kh, kw, d, c] → [n, h', w', d]`
---* `strides`: Steps between windows, at least 1: one, or one for each spatial axis.
---* `padding`: VALID: only whole windows; SAME: zeros around, so that the extent is divided by the stride, rounding up.
---* `output_padding`: Extra extent at the end, less than the stride.
---* `dilations`: Steps between the taps of a window, at least 1.
---@param x ipulua.Tensor|number|table
---@param kernel ipulua.Tensor|number|table
---@param options? {strides?: integer|integer[], padding?: "VALID"|"SAME", output_padding?: integer|integer[], dilations?: integer|integer[]}
---@return ipulua.Tensor
function ipu.nn.conv2d_transpose(x, kernel, options) end

---Convolution of channels-last volumes.
---Shapes: `[n, z, h, w, c], [kz, kh, kw, c / groups, d] → [n, z', h', w', d]`
---* `strides`: Steps between windows, at least 1: one, or one for each spatial axis.
---* `padding`: VALID: only whole windows; SAME: zeros around, so that the extent is divided by the stride, rounding up.
---* `dilations`: Steps between the taps of a window, at least 1.
---* `groups`: Parts of the channels that are convolved apart; divides them.
---@param x ipulua.Tensor|number|table
---@param kernel ipulua.Tensor|number|table
---@param options? {strides?: integer|integer[], padding?: "VALID"|"SAME", dilations?: integer|integer[], groups?: integer}
---@return ipulua.Tensor
function ipu.nn.conv3d(x, kernel, options) end

---The adjoint of a convolution: spreads each element over a window.
---Shapes: `[n, z, h, w, c], [kz, kh, kw, d, c] → [n, z', h', w', d]`
---* `strides`: Steps between windows, at least 1: one, or one for each spatial axis.
---* `padding`: VALID: only whole windows; SAME: zeros around, so that the extent is divided by the stride, rounding up.
---* `output_padding`: Extra extent at the end, less than the stride.
---* `dilations`: Steps between the taps of a window, at least 1.
---@param x ipulua.Tensor|number|table
---@param kernel ipulua.Tensor|number|table
---@param options? {strides?: integer|integer[], padding?: "VALID"|"SAME", output_padding?: integer|integer[], dilations?: integer|integer[]}
---@return ipulua.Tensor
function ipu.nn.conv3d_transpose(x, kernel, options) end

---The likeliest label sequences: their log probabilities, lengths, and labels (-1 after the end).
---Shapes: `[t, n, c], [n] → [n, paths], [n, paths], [n, paths, t]`
---* `beam_width`: Prefixes kept at each step, from 1 to 4096.
---* `top_paths`: How many of them are returned, from 1 to beam_width.
---* `blank_index`: The class that is no label; negative: from the end.
---@param logits ipulua.Tensor|number|table
---@param lengths ipulua.Tensor|number|table
---@param options? {beam_width?: integer, top_paths?: integer, blank_index?: integer}
---@return ipulua.Tensor
---@return ipulua.Tensor
---@return ipulua.Tensor
function ipu.nn.ctc_beam_search_decoder(logits, lengths, options) end

---The same from log probabilities, which are taken as they are.
---Shapes: `[t, n, c], [n] → [n, paths], [n, paths], [n, paths, t]`
---* `beam_width`: Prefixes kept at each step, from 1 to 4096.
---* `top_paths`: How many of them are returned, from 1 to beam_width.
---* `blank_index`: The class that is no label; negative: from the end.
---@param log_probs ipulua.Tensor|number|table
---@param lengths ipulua.Tensor|number|table
---@param options? {beam_width?: integer, top_paths?: integer, blank_index?: integer}
---@return ipulua.Tensor
---@return ipulua.Tensor
---@return ipulua.Tensor
function ipu.nn.ctc_beam_search_decoder_with_log_probs(log_probs, lengths, options) end

---Minus the log of the probability of all alignments of labels [batch, length] to logits [time, batch, classes].
---Shapes: `[n, l], [t, n, c], [n], [n] → [n]`
---* `blank_index`: The class that is no label; negative: from the end.
---* `out_dtype`: Dtype of the loss; by default the scores' dtype.
---@param labels ipulua.Tensor|number|table
---@param logits ipulua.Tensor|number|table
---@param label_length ipulua.Tensor|number|table
---@param logit_length ipulua.Tensor|number|table
---@param options? {blank_index?: integer, out_dtype?: string}
---@return ipulua.Tensor
function ipu.nn.ctc_loss(labels, logits, label_length, logit_length, options) end

---ctc_loss of log probabilities, which are taken as they are.
---Shapes: `[n, l], [t, n, c], [n], [n] → [n]`
---* `blank_index`: The class that is no label; negative: from the end.
---* `out_dtype`: Dtype of the loss; by default the scores' dtype.
---@param labels ipulua.Tensor|number|table
---@param log_probs ipulua.Tensor|number|table
---@param label_length ipulua.Tensor|number|table
---@param logit_length ipulua.Tensor|number|table
---@param options? {blank_index?: integer, out_dtype?: string}
---@return ipulua.Tensor
function ipu.nn.ctc_loss_with_log_probs(labels, log_probs, label_length, logit_length, options) end

---The channels of each pixel as a block of pixels: by row, by column, then by channel.
---Shapes: `[n, h, w, b·b·c] → [n, h·b, w·b, c]`
---* `block_size`: pixels of a block, in each direction
---@param x ipulua.Tensor|number|table
---@param options {block_size: integer}
---@return ipulua.Tensor
function ipu.nn.depth_to_space(x, options) end

---Each channel convolved with its own kernels; channel c gives channels c m … c m + m - 1.
---Shapes: `[n, h, w, c], [kh, kw, c, m] → [n, h', w', c m]`
---* `strides`: Steps between windows, at least 1: one, or one for each spatial axis.
---* `padding`: VALID: only whole windows; SAME: zeros around, so that the extent is divided by the stride, rounding up.
---* `dilations`: Steps between the taps of a window, at least 1.
---@param x ipulua.Tensor|number|table
---@param kernel ipulua.Tensor|number|table
---@param options? {strides?: integer|integer[], padding?: "VALID"|"SAME", dilations?: integer|integer[]}
---@return ipulua.Tensor
function ipu.nn.depthwise_conv2d(x, kernel, options) end

---softmax(scale q k') v in each head. mask (true: attend) broadcasts to [batch, heads, queries, keys].
---Shapes: `[n, t, h, d], [n, s, h, d], [n, s, h, e], mask → [n, t, h, e]`
---* `is_causal`: Query i sees keys 0 to i only.
---* `scale`: Factor of the scores; 1 / sqrt(width) when absent.
---@param q ipulua.Tensor|number|table
---@param k ipulua.Tensor|number|table
---@param v ipulua.Tensor|number|table
---@param mask? ipulua.Tensor|number|table
---@param options? {is_causal?: boolean, scale?: number}
---@return ipulua.Tensor
function ipu.nn.dot_product_attention(q, k, v, mask, options) end

---Each element is 0 with probability rate, else x / (1 - rate).
---Shapes: `any`
---* `rate`: probability of 0, in [0, 1)
---* `noise_shape`: shape of the mask, broadcast to x; -1: x's extent
---* `seed`: of this op
---@param x ipulua.Tensor|number|table
---@param options? {rate?: number, noise_shape?: integer|integer[], seed?: integer}
---@return ipulua.Tensor
function ipu.nn.dropout(x, options) end

---x for x > 0, else alpha (e^x - 1).
---Shapes: `any`
---* `alpha`: minus the limit for small x
---@param x ipulua.Tensor|number|table
---@param options? {alpha?: number}
---@return ipulua.Tensor
function ipu.nn.elu(x, options) end

---x Phi(x), Phi of the normal distribution; by default its tanh form, as nn_ops.gelu of Graphcore's TensorFlow 2.6.
---Shapes: `any`
---* `approximate`: the tanh form instead of erf
---@param x ipulua.Tensor|number|table
---@param options? {approximate?: boolean}
---@return ipulua.Tensor
function ipu.nn.gelu(x, options) end

---Normalises groups of channels of each sample over space; then gamma and beta.
---Shapes: `[n, …, c], [c], [c] → [n, …, c]`
---* `groups`: Groups of channels; divides them.
---* `channels_axis`: The channels.
---* `epsilon`: Added to the variance.
---* `strided_channel_grouping`: Channel c belongs to group c mod groups; otherwise groups are blocks of neighbours.
---@param x ipulua.Tensor|number|table
---@param gamma? ipulua.Tensor|number|table
---@param beta? ipulua.Tensor|number|table
---@param options? {groups?: integer, channels_axis?: integer, epsilon?: number, strided_channel_grouping?: boolean}
---@return ipulua.Tensor
function ipu.nn.group_norm(x, gamma, beta, options) end

---A gated recurrent unit over sequences; gates z, r, h. Returns all outputs and the last state.
---Shapes: `[n, t, f], [f, 3 u], [u, 3 u], [2, 3 u] or [3 u], [n, u], [n, t] → [n, t, u], [n, u]`
---* `zero_output_for_mask`: Outputs of masked steps are zero instead of the previous ones.
---* `reset_after`: The reset gate multiplies the recurrent product, which has a bias of its own; otherwise the state.
---@param x ipulua.Tensor|number|table
---@param kernel ipulua.Tensor|number|table
---@param recurrent_kernel ipulua.Tensor|number|table
---@param bias? ipulua.Tensor|number|table
---@param initial_h? ipulua.Tensor|number|table
---@param mask? ipulua.Tensor|number|table
---@param options? {zero_output_for_mask?: boolean, reset_after?: boolean}
---@return ipulua.Tensor
---@return ipulua.Tensor
function ipu.nn.gru(x, kernel, recurrent_kernel, bias, initial_h, mask, options) end

---min(max(0.2 x + 0.5, 0), 1).
---Shapes: `any`
---@param x ipulua.Tensor|number|table
---@return ipulua.Tensor
function ipu.nn.hard_sigmoid(x) end

---Normalises each channel of each sample over space; then gamma and beta.
---Shapes: `[n, …, c], [c], [c] → [n, …, c]`
---* `channels_axis`: The channels.
---* `epsilon`: Added to the variance.
---@param x ipulua.Tensor|number|table
---@param gamma? ipulua.Tensor|number|table
---@param beta? ipulua.Tensor|number|table
---@param options? {channels_axis?: integer, epsilon?: number}
---@return ipulua.Tensor
function ipu.nn.instance_norm(x, gamma, beta, options) end

---Half the sum of squares.
---Shapes: `any → []`
---@param x ipulua.Tensor|number|table
---@return ipulua.Tensor
function ipu.nn.l2_loss(x) end

---x / sqrt(max(sum of squares over axis, epsilon)).
---Shapes: `any`
---* `axis`: axes of a vector; all when absent
---* `epsilon`: least sum of squares
---@param x ipulua.Tensor|number|table
---@param options? {axis?: integer|integer[], epsilon?: number}
---@return ipulua.Tensor
function ipu.nn.l2_normalize(x, options) end

---Subtracts the mean over axes, divides by the deviation; then gamma and beta.
---Shapes: `[…, n], [n], [n] → […, n]`
---* `axis`: The axes that are normalised together: neighbours.
---* `epsilon`: Added to the variance.
---@param x ipulua.Tensor|number|table
---@param gamma? ipulua.Tensor|number|table
---@param beta? ipulua.Tensor|number|table
---@param options? {axis?: integer|integer[], epsilon?: number}
---@return ipulua.Tensor
function ipu.nn.layer_norm(x, gamma, beta, options) end

---x for x >= 0, else alpha x.
---Shapes: `any`
---* `alpha`: slope below 0
---@param x ipulua.Tensor|number|table
---@param options? {alpha?: number}
---@return ipulua.Tensor
function ipu.nn.leaky_relu(x, options) end

---The logarithm of softmax.
---Shapes: `any`
---* `axis`: The axis whose elements sum to 1.
---@param x ipulua.Tensor|number|table
---@param options? {axis?: integer}
---@return ipulua.Tensor
function ipu.nn.log_softmax(x, options) end

---A long short-term memory over sequences; gates i, f, c, o. Returns all outputs, the last state and the last cell.
---Shapes: `[n, t, f], [f, 4 u], [u, 4 u], [4 u], [n, u], [n, u], [n, t] → [n, t, u], [n, u], [n, u]`
---* `zero_output_for_mask`: Outputs of masked steps are zero instead of the previous ones.
---@param x ipulua.Tensor|number|table
---@param kernel ipulua.Tensor|number|table
---@param recurrent_kernel ipulua.Tensor|number|table
---@param bias? ipulua.Tensor|number|table
---@param initial_h? ipulua.Tensor|number|table
---@param initial_c? ipulua.Tensor|number|table
---@param mask? ipulua.Tensor|number|table
---@param options? {zero_output_for_mask?: boolean}
---@return ipulua.Tensor
---@return ipulua.Tensor
---@return ipulua.Tensor
function ipu.nn.lstm(x, kernel, recurrent_kernel, bias, initial_h, initial_c, mask, options) end

---The greatest element of each window; padding never wins.
---Shapes: `[n, spatial…, c] → [n, spatial'…, c]`
---* `ksize`: The window's extents, at least 1: one, or one for each spatial axis.
---* `strides`: Steps between windows, at least 1; by default ksize.
---* `padding`: VALID: only whole windows; SAME: the extent divided by the stride, rounding up.
---@param x ipulua.Tensor|number|table
---@param options? {ksize?: integer|integer[], strides?: integer|integer[], padding?: "VALID"|"SAME"}
---@return ipulua.Tensor
function ipu.nn.max_pool(x, options) end

---Mean and population variance over axes.
---Shapes: `any → mean, variance`
---* `axes`: Which axes; all when absent.
---* `keepdims`: Keep reduced axes as 1.
---@param x ipulua.Tensor|number|table
---@param options? {axes?: integer|integer[], keepdims?: boolean}
---@return ipulua.Tensor
---@return ipulua.Tensor
function ipu.nn.moments(x, options) end

---max(x, 0).
---Shapes: `any`
---@param x ipulua.Tensor|number|table
---@return ipulua.Tensor
function ipu.nn.relu(x) end

---min(max(x, 0), 6).
---Shapes: `any`
---@param x ipulua.Tensor|number|table
---@return ipulua.Tensor
function ipu.nn.relu6(x) end

---1.0507 x for x > 0, else 1.7581 (e^x - 1).
---Shapes: `any`
---@param x ipulua.Tensor|number|table
---@return ipulua.Tensor
function ipu.nn.selu(x) end

---max(x, 0) - x z + log(1 + e^-|x|) for logits x and labels z, element by element.
---Shapes: `any, the same → the same`
---@param labels ipulua.Tensor|number|table
---@param logits ipulua.Tensor|number|table
---@return ipulua.Tensor
function ipu.nn.sigmoid_cross_entropy_with_logits(labels, logits) end

---h = activation(x kernel + h recurrent_kernel + bias) over sequences. Returns all outputs and the last state.
---Shapes: `[n, t, f], [f, u], [u, u], [u], [n, u], [n, t] → [n, t, u], [n, u]`
---* `zero_output_for_mask`: Outputs of masked steps are zero instead of the previous ones.
---* `activation`: Function that is applied to the sum.
---@param x ipulua.Tensor|number|table
---@param kernel ipulua.Tensor|number|table
---@param recurrent_kernel ipulua.Tensor|number|table
---@param bias? ipulua.Tensor|number|table
---@param initial_h? ipulua.Tensor|number|table
---@param mask? ipulua.Tensor|number|table
---@param options? {zero_output_for_mask?: boolean, activation?: "tanh"|"relu"|"sigmoid"}
---@return ipulua.Tensor
---@return ipulua.Tensor
function ipu.nn.simple_rnn(x, kernel, recurrent_kernel, bias, initial_h, mask, options) end

---e^x divided by its sum along an axis.
---Shapes: `any`
---* `axis`: The axis whose elements sum to 1.
---* `stable`: Accepted; the greatest element is always subtracted.
---@param x ipulua.Tensor|number|table
---@param options? {axis?: integer, stable?: boolean}
---@return ipulua.Tensor
function ipu.nn.softmax(x, options) end

---Minus the sum over the last axis of labels times log softmax of logits.
---Shapes: `[…, n], […, n] → […]`
---@param labels ipulua.Tensor|number|table
---@param logits ipulua.Tensor|number|table
---@return ipulua.Tensor
function ipu.nn.softmax_cross_entropy_with_logits(labels, logits) end

---log(1 + e^x).
---Shapes: `any`
---@param x ipulua.Tensor|number|table
---@return ipulua.Tensor
function ipu.nn.softplus(x) end

---x / (1 + |x|).
---Shapes: `any`
---@param x ipulua.Tensor|number|table
---@return ipulua.Tensor
function ipu.nn.softsign(x) end

---The pixels of each block as channels of one: by row, by column, then by channel.
---Shapes: `[n, h·b, w·b, c] → [n, h, w, b·b·c]`
---* `block_size`: pixels of a block, in each direction
---@param x ipulua.Tensor|number|table
---@param options {block_size: integer}
---@return ipulua.Tensor
function ipu.nn.space_to_depth(x, options) end

---Minus the log softmax of logits at each row's label; one that is no class is an error.
---Shapes: `[…], […, n] → […]`
---@param labels ipulua.Tensor|number|table
---@param logits ipulua.Tensor|number|table
---@return ipulua.Tensor
function ipu.nn.sparse_softmax_cross_entropy_with_logits(labels, logits) end

---x sigmoid(x).
---Shapes: `any`
---@param x ipulua.Tensor|number|table
---@return ipulua.Tensor
function ipu.nn.swish(x) end

---(image scale - channel_offsets) channel_scales, with a fourth channel of zeros; uint8 gives float16, and so are numbers beside it.
---Shapes: `[..., 3], [3], [3] → [..., 4]`
---* `scale`: of the image, before the offsets
---@param image ipulua.Tensor|number|table
---@param channel_offsets ipulua.Tensor|number|table
---@param channel_scales ipulua.Tensor|number|table
---@param options? {scale?: number}
---@return ipulua.Tensor
function ipu.normalise_image(image, channel_offsets, channel_scales, options) end

---a ≠ b.
---Shapes: `a, b → broadcast, bool`
---@param a ipulua.Tensor|number|table
---@param b ipulua.Tensor|number|table
---@return ipulua.Tensor
function ipu.not_equal(a, b) end

---on_value where the new axis equals the index, else off_value; other indices give no hot element.
---Shapes: `[...] → [..., depth]`
---* `depth`: extent of the new axis, not negative
---* `axis`: where it stands
---* `on_value`: at the index
---* `off_value`: elsewhere
---* `dtype`: of the result
---@param indices ipulua.Tensor|number|table
---@param options {depth: integer, axis?: integer, on_value?: number, off_value?: number, dtype?: string}
---@return ipulua.Tensor
function ipu.one_hot(indices, options) end

---Ones of x's shape and dtype.
---Shapes: `any`
---@param x ipulua.Tensor|number|table
---@return ipulua.Tensor
function ipu.ones_like(x) end

---The product of each element of a with each of b.
---Shapes: `[n], [m] → [n, m]`
---@param a ipulua.Tensor|number|table
---@param b ipulua.Tensor|number|table
---@return ipulua.Tensor
function ipu.outer(a, b) end

---A frame around x.
---Shapes: `[n, ...] → [before + n + after, ...]`
---* `paddings`: for each axis: elements before, elements after
---* `mode`: how the frame is filled
---* `constant_values`: the number that CONSTANT fills with
---@param x ipulua.Tensor|number|table
---@param options {paddings: integer|integer[], mode?: "CONSTANT"|"REFLECT"|"SYMMETRIC", constant_values?: number}
---@return ipulua.Tensor
function ipu.pad(x, options) end

---a to the power b; of integers a negative power is rounded towards 0.
---Shapes: `a, b → broadcast`
---@param a ipulua.Tensor|number|table
---@param b ipulua.Tensor|number|table
---@return ipulua.Tensor
function ipu.pow(a, b) end

---1 with probability p, else 0.
---Shapes: `→ shape`
---* `shape`: of the result
---* `p`: probability of 1, in [0, 1]
---* `dtype`: of the result
---* `seed`: of this op
---@param options {shape: integer|integer[], p?: number, dtype?: string, seed?: integer}
---@return ipulua.Tensor
function ipu.random.bernoulli(options) end

---Classes drawn by their logits, int32.
---Shapes: `[batch, classes] → [batch, num_samples]`
---* `num_samples`: draws for each row, not negative
---* `seed`: of this op
---@param logits ipulua.Tensor|number|table
---@param options {num_samples: integer, seed?: integer}
---@return ipulua.Tensor
function ipu.random.categorical(logits, options) end

---Normally distributed numbers.
---Shapes: `→ shape`
---* `shape`: of the result
---* `mean`: of the distribution
---* `stddev`: standard deviation, not negative
---* `dtype`: of the result
---* `seed`: of this op
---@param options {shape: integer|integer[], mean?: number, stddev?: number, dtype?: string, seed?: integer}
---@return ipulua.Tensor
function ipu.random.normal(options) end

---Rows in random order.
---Shapes: `[n, ...]`
---* `seed`: of this op
---@param x ipulua.Tensor|number|table
---@param options? {seed?: integer}
---@return ipulua.Tensor
function ipu.random.shuffle(x, options) end

---Normally distributed numbers within two standard deviations of the mean.
---Shapes: `→ shape`
---* `shape`: of the result
---* `mean`: of the distribution
---* `stddev`: standard deviation, not negative
---* `dtype`: of the result
---* `seed`: of this op
---@param options {shape: integer|integer[], mean?: number, stddev?: number, dtype?: string, seed?: integer}
---@return ipulua.Tensor
function ipu.random.truncated_normal(options) end

---Uniformly distributed numbers, maxval excluded.
---Shapes: `→ shape`
---* `shape`: of the result
---* `minval`: least
---* `maxval`: bound, excluded
---* `dtype`: of the result
---* `seed`: of this op
---@param options {shape: integer|integer[], minval?: number, maxval?: number, dtype?: string, seed?: integer}
---@return ipulua.Tensor
function ipu.random.uniform(options) end

---1 / x.
---Shapes: `any`
---@param x ipulua.Tensor|number|table
---@return ipulua.Tensor
function ipu.reciprocal(x) end

---Whether all elements over axes are true.
---Shapes: `[...] → without axis`
---* `axis`: axes to reduce; all when absent
---* `keepdims`: leave reduced axes as 1
---@param x ipulua.Tensor|number|table
---@param options? {axis?: integer|integer[], keepdims?: boolean}
---@return ipulua.Tensor
function ipu.reduce_all(x, options) end
Tensor.all = ipu.reduce_all

---Whether any element over axes is true.
---Shapes: `[...] → without axis`
---* `axis`: axes to reduce; all when absent
---* `keepdims`: leave reduced axes as 1
---@param x ipulua.Tensor|number|table
---@param options? {axis?: integer|integer[], keepdims?: boolean}
---@return ipulua.Tensor
function ipu.reduce_any(x, options) end
Tensor.any = ipu.reduce_any

---log of the sum of e^x over axes, without overflow.
---Shapes: `[...] → without axis`
---* `axis`: axes to reduce; all when absent
---* `keepdims`: leave reduced axes as 1
---@param x ipulua.Tensor|number|table
---@param options? {axis?: integer|integer[], keepdims?: boolean}
---@return ipulua.Tensor
function ipu.reduce_logsumexp(x, options) end
Tensor.logsumexp = ipu.reduce_logsumexp

---The greatest element over axes; equals share the gradient.
---Shapes: `[...] → without axis`
---* `axis`: axes to reduce; all when absent
---* `keepdims`: leave reduced axes as 1
---@param x ipulua.Tensor|number|table
---@param options? {axis?: integer|integer[], keepdims?: boolean}
---@return ipulua.Tensor
function ipu.reduce_max(x, options) end
Tensor.max = ipu.reduce_max

---The mean over axes.
---Shapes: `[...] → without axis`
---* `axis`: axes to reduce; all when absent
---* `keepdims`: leave reduced axes as 1
---@param x ipulua.Tensor|number|table
---@param options? {axis?: integer|integer[], keepdims?: boolean}
---@return ipulua.Tensor
function ipu.reduce_mean(x, options) end
Tensor.mean = ipu.reduce_mean

---The smallest element over axes; equals share the gradient.
---Shapes: `[...] → without axis`
---* `axis`: axes to reduce; all when absent
---* `keepdims`: leave reduced axes as 1
---@param x ipulua.Tensor|number|table
---@param options? {axis?: integer|integer[], keepdims?: boolean}
---@return ipulua.Tensor
function ipu.reduce_min(x, options) end
Tensor.min = ipu.reduce_min

---The product over axes.
---Shapes: `[...] → without axis`
---* `axis`: axes to reduce; all when absent
---* `keepdims`: leave reduced axes as 1
---@param x ipulua.Tensor|number|table
---@param options? {axis?: integer|integer[], keepdims?: boolean}
---@return ipulua.Tensor
function ipu.reduce_prod(x, options) end
Tensor.prod = ipu.reduce_prod

---Each replica's share of what all replicas' elements give combined, padded with zeros.
---Shapes: `[n] → [ceil(n / replicas)]`
---* `op`: how elements combine; COLLECTIVE_OP_ADD, TensorFlow's name, is ADD
---* `replication_factor`: how many replicas there are; known by default
---@param x ipulua.Tensor|number|table
---@param options? {op?: "ADD"|"MUL"|"MIN"|"MAX"|"LOGICAL_AND"|"LOGICAL_OR"|"SQUARE_ADD"|"LOCAL"|"MEAN", replication_factor?: integer}
---@return ipulua.Tensor
function ipu.reduce_scatter(x, options) end

---The population standard deviation over axes.
---Shapes: `[...] → without axis`
---* `axis`: axes to reduce; all when absent
---* `keepdims`: leave reduced axes as 1
---@param x ipulua.Tensor|number|table
---@param options? {axis?: integer|integer[], keepdims?: boolean}
---@return ipulua.Tensor
function ipu.reduce_std(x, options) end
Tensor.std = ipu.reduce_std

---The sum over axes.
---Shapes: `[...] → without axis`
---* `axis`: axes to reduce; all when absent
---* `keepdims`: leave reduced axes as 1
---@param x ipulua.Tensor|number|table
---@param options? {axis?: integer|integer[], keepdims?: boolean}
---@return ipulua.Tensor
function ipu.reduce_sum(x, options) end
Tensor.sum = ipu.reduce_sum

---The population variance over axes.
---Shapes: `[...] → without axis`
---* `axis`: axes to reduce; all when absent
---* `keepdims`: leave reduced axes as 1
---@param x ipulua.Tensor|number|table
---@param options? {axis?: integer|integer[], keepdims?: boolean}
---@return ipulua.Tensor
function ipu.reduce_variance(x, options) end
Tensor.variance = ipu.reduce_variance

---Each element (or slice along axis) several times; without axis x is flattened first.
---Shapes: `[..., n, ...] → [..., sum of repeats, ...]`
---* `repeats`: how often, not negative: one number, or one for each slice
---* `axis`: to repeat along
---@param x ipulua.Tensor|number|table
---@param options {repeats: integer|integer[], axis?: integer}
---@return ipulua.Tensor
function ipu.repeat_n(x, options) end

---This replica's number, from 0.
---Shapes: `→ []`
---@return ipulua.Tensor
function ipu.replication_index() end

---The same elements in another shape; one -1 is inferred.
---Shapes: `any → shape`
---* `shape`: of the result
---@param x ipulua.Tensor|number|table
---@param options {shape: integer|integer[]}
---@return ipulua.Tensor
function ipu.reshape(x, options) end

---Back to front along axes.
---Shapes: `any`
---* `axis`: axes to turn
---@param x ipulua.Tensor|number|table
---@param options {axis: integer|integer[]}
---@return ipulua.Tensor
function ipu.reverse(x, options) end

---Elements moved along axes; elements moved past the end come in at the beginning.
---Shapes: `[...] → [...]`
---* `shift`: distance along each axis; distances along one axis add up
---* `axis`: the axes
---@param x ipulua.Tensor|number|table
---@param options {shift: integer|integer[], axis: integer|integer[]}
---@return ipulua.Tensor
function ipu.roll(x, options) end

---The nearest integer; halves go to the even one.
---Shapes: `any`
---@param x ipulua.Tensor|number|table
---@return ipulua.Tensor
function ipu.round(x) end

---1 / sqrt(x).
---Shapes: `any`
---@param x ipulua.Tensor|number|table
---@return ipulua.Tensor
function ipu.rsqrt(x) end

---Updates added to zeros at tuples of indices; one outside is an error.
---Shapes: `[..., 2], [..., ...] → shape`
---* `shape`: of the result
---@param indices ipulua.Tensor|number|table
---@param updates ipulua.Tensor|number|table
---@param options {shape: integer|integer[]}
---@return ipulua.Tensor
function ipu.scatter_nd(indices, updates, options) end

---Sums of rows with equal ids; missing segments are 0. An id outside is an error.
---Shapes: `[n, ...], [n] → [num_segments, ...]`
---* `num_segments`: rows of the result
---@param data ipulua.Tensor|number|table
---@param segment_ids ipulua.Tensor|number|table
---@param options {num_segments: integer}
---@return ipulua.Tensor
function ipu.segment_sum(data, segment_ids, options) end

---Copy runs of rows from src into dst.
---Shapes: `[n, ...], [m, ...], [k], [k], [k] → [n, ...]`
---* `zero_unused`: zero the other rows instead of leaving dst's
---@param dst ipulua.Tensor|number|table
---@param src ipulua.Tensor|number|table
---@param num_elems ipulua.Tensor|number|table
---@param src_offsets ipulua.Tensor|number|table
---@param dst_offsets ipulua.Tensor|number|table
---@param options? {zero_unused?: boolean}
---@return ipulua.Tensor
function ipu.sequence_slice(dst, src, num_elems, src_offsets, dst_offsets, options) end

---Copy packed runs of rows into dst.
---Shapes: `[n, ...], [m, ...], [k], [k] → [n, ...]`
---* `zero_unused`: zero the other rows instead of leaving dst's
---@param dst ipulua.Tensor|number|table
---@param src ipulua.Tensor|number|table
---@param num_elems ipulua.Tensor|number|table
---@param dst_offsets ipulua.Tensor|number|table
---@param options? {zero_unused?: boolean}
---@return ipulua.Tensor
function ipu.sequence_slice_pack(dst, src, num_elems, dst_offsets, options) end

---Pack runs of rows of src, one after the other.
---Shapes: `[m, ...], [k], [k] → [total_elements, ...]`
---* `total_elements`: rows of the result
---@param src ipulua.Tensor|number|table
---@param num_elems ipulua.Tensor|number|table
---@param src_offsets ipulua.Tensor|number|table
---@param options {total_elements: integer}
---@return ipulua.Tensor
function ipu.sequence_slice_unpack(src, num_elems, src_offsets, options) end

---matmul done in parts, for less memory on the machine; the same result.
---Shapes: `[…, m, k], […, k, n] → […, m, n]`
---* `serialization_factor`: how many parts; divides the extent that is cut
---* `serialization_dimension`: dimension that is cut: m, k or n
---* `transpose_a`: a's last two axes are swapped
---* `transpose_b`: b's last two axes are swapped
---@param a ipulua.Tensor|number|table
---@param b ipulua.Tensor|number|table
---@param options {serialization_factor: integer, serialization_dimension: "a_columns"|"a_rows_b_columns"|"b_rows", transpose_a?: boolean, transpose_b?: boolean}
---@return ipulua.Tensor
function ipu.serialized_matmul(a, b, options) end

---1 / (1 + e^-x).
---Shapes: `any`
---@param x ipulua.Tensor|number|table
---@return ipulua.Tensor
function ipu.sigmoid(x) end

----1, 0 or 1, as x is below, at or above 0.
---Shapes: `any`
---@param x ipulua.Tensor|number|table
---@return ipulua.Tensor
function ipu.sign(x) end

---The sine; x in radians.
---Shapes: `any`
---@param x ipulua.Tensor|number|table
---@return ipulua.Tensor
function ipu.sin(x) end

---The hyperbolic sine.
---Shapes: `any`
---@param x ipulua.Tensor|number|table
---@return ipulua.Tensor
function ipu.sinh(x) end

---size elements from begin on along each axis; size -1 goes to the end.
---Shapes: `[...] → size`
---* `begin`: first index of each axis
---* `size`: elements of each axis; -1: the rest
---@param x ipulua.Tensor|number|table
---@param options {begin: integer|integer[], size: integer|integer[]}
---@return ipulua.Tensor
function ipu.slice(x, options) end

---Elements in order along an axis; NaN counts as greatest.
---Shapes: `any`
---* `axis`: to sort along
---* `direction`: which end comes first
---@param x ipulua.Tensor|number|table
---@param options? {axis?: integer, direction?: "ASCENDING"|"DESCENDING"}
---@return ipulua.Tensor
function ipu.sort(x, options) end

---Cut along an axis, into equal parts (a number) or parts of given sizes (a list).
---Shapes: `[..., n, ...] → parts`
---* `count_or_sizes`: how many parts, or the size of each
---* `axis`: to cut
---@param x ipulua.Tensor|number|table
---@param options {count_or_sizes: integer|integer[], axis?: integer}
---@return ipulua.Tensor ...
function ipu.split(x, options) end

---The square root.
---Shapes: `any`
---@param x ipulua.Tensor|number|table
---@return ipulua.Tensor
function ipu.sqrt(x) end

---x^2.
---Shapes: `any`
---@param x ipulua.Tensor|number|table
---@return ipulua.Tensor
function ipu.square(x) end

---(a - b)^2.
---Shapes: `a, b → broadcast`
---@param a ipulua.Tensor|number|table
---@param b ipulua.Tensor|number|table
---@return ipulua.Tensor
function ipu.squared_difference(a, b) end

---Without axes of 1.
---Shapes: `[..., 1, ...] → [...]`
---* `axis`: axes to drop; all of 1 when absent
---@param x ipulua.Tensor|number|table
---@param options? {axis?: integer|integer[]}
---@return ipulua.Tensor
function ipu.squeeze(x, options) end

---Tensors of one shape along a new axis.
---Shapes: `[...] × n → [..., n, ...]`
---* `axis`: where the new axis stands
---@param tensors ipulua.Tensor[]
---@param options? {axis?: integer}
---@return ipulua.Tensor
function ipu.stack(tensors, options) end

---x itself; gradients end here.
---Shapes: `any`
---@param x ipulua.Tensor|number|table
---@return ipulua.Tensor
function ipu.stop_gradient(x) end

---Python's x[begin:end:stride, ...]; false stands for an open end.
---Shapes: `[...] → sliced`
---* `begins`: first index of each axis; negative from the end, false: open
---* `ends`: index after the last; false: open
---* `strides`: steps; negative ones go backwards
---@param x ipulua.Tensor|number|table
---@param options {begins: integer|integer[], ends: integer|integer[], strides?: integer|integer[]}
---@return ipulua.Tensor
function ipu.strided_slice(x, options) end

---a - b.
---Shapes: `a, b → broadcast`
---@param a ipulua.Tensor|number|table
---@param b ipulua.Tensor|number|table
---@return ipulua.Tensor
function ipu.sub(a, b) end

---The tangent; x in radians.
---Shapes: `any`
---@param x ipulua.Tensor|number|table
---@return ipulua.Tensor
function ipu.tan(x) end

---The hyperbolic tangent.
---Shapes: `any`
---@param x ipulua.Tensor|number|table
---@return ipulua.Tensor
function ipu.tanh(x) end

---Copies side by side along each axis.
---Shapes: `[n, ...] → [n * multiple, ...]`
---* `multiples`: copies along each axis
---@param x ipulua.Tensor|number|table
---@param options {multiples: integer|integer[]}
---@return ipulua.Tensor
function ipu.tile(x, options) end

---The k greatest elements of the last axis, and their positions (int32); of equals the first.
---Shapes: `[..., n] → [..., k], [..., k]`
---* `k`: how many, from 0 to the last extent
---@param x ipulua.Tensor|number|table
---@param options? {k?: integer}
---@return ipulua.Tensor
---@return ipulua.Tensor
function ipu.top_k(x, options) end

---Axes in another order; the reverse one when perm is absent.
---Shapes: `[...] → permuted`
---* `perm`: the axis of x that each axis of the result is
---@param x ipulua.Tensor|number|table
---@param options? {perm?: integer|integer[]}
---@return ipulua.Tensor
function ipu.transpose(x, options) end

---x with a x = b, or a^T x = b, where a's one triangle counts.
---Shapes: `[…, n, n], […, n, m] → […, n, m]`
---* `lower`: a's lower triangle counts, else its upper one
---* `adjoint`: solve with a transposed
---@param a ipulua.Tensor|number|table
---@param b ipulua.Tensor|number|table
---@param options? {lower?: boolean, adjoint?: boolean}
---@return ipulua.Tensor
function ipu.triangular_solve(a, b, options) end

---Each matrix up to a diagonal; above it 0 (false).
---Shapes: `[…, m, n] → […, m, n]`
---* `k`: the last diagonal that is kept; 0 is the main one, positive ones lie above it
---@param x ipulua.Tensor|number|table
---@param options? {k?: integer}
---@return ipulua.Tensor
function ipu.tril(x, options) end

---Each matrix from a diagonal on; below it 0 (false).
---Shapes: `[…, m, n] → […, m, n]`
---* `k`: the first diagonal that is kept; 0 is the main one, positive ones lie above it
---@param x ipulua.Tensor|number|table
---@param options? {k?: integer}
---@return ipulua.Tensor
function ipu.triu(x, options) end

---The parts of 1 along an axis, without it.
---Shapes: `[..., n, ...] → n × [...]`
---* `axis`: to take apart
---@param x ipulua.Tensor|number|table
---@param options? {axis?: integer}
---@return ipulua.Tensor ...
function ipu.unstack(x, options) end

---a where the condition holds, else b. The condition alone: where it is true, as nonzero.
---Shapes: `condition, a, b → broadcast`
---@param condition ipulua.Tensor|number|table
---@param a ipulua.Tensor|number|table
---@param b ipulua.Tensor|number|table
---@return ipulua.Tensor
function ipu.where(condition, a, b) end

---Zeros of x's shape and dtype.
---Shapes: `any`
---@param x ipulua.Tensor|number|table
---@return ipulua.Tensor
function ipu.zeros_like(x) end
ipu.loops = {}
ipu.ipu_compiler = {}
ipu.data = {}
ipu.dataset_benchmark = {}
ipu.image = {}
ipu.popdist = {}
ipu.distributed = {}
ipu.train = {}
ipu.optimizers = {}
ipu.within_replica = {}
ipu.graph = {}
ipu.debugging = {}
ipu.debug = {}
ipu.json = {}

---A tensor of numbers, nested lists, booleans or tensors; float32 unless dtype says otherwise.
---Shapes: numbers []; nested lists [outer, …, inner]; a list of n tensors [...] → [n, ...]. `ipu.tensor{{1, 2, 3}, {4, 5, 6}}` → [2, 3]
---Errors: lists of unequal lengths, values that the dtype can't hold: `ipu.tensor{{1, 2}, {3}}`, `ipu.tensor({300}, {dtype = "int8"})`
---@param data any
---@param options? {dtype?: string}
---@return ipulua.Tensor
function ipu.tensor(data, options) end

---A tensor; with a shape, filled with one value or reshaped to it.
---Shapes: as tensor; with a shape that shape. `ipu.constant(7, {shape = {2, 3}})` → [2, 3]
---Errors: values that don't fill the shape: `ipu.constant({1, 2, 3}, {shape = {2, 2}})`
---@param value any
---@param options? {dtype?: string, shape?: any[]|integer, name?: string}
---@return ipulua.Tensor
function ipu.constant(value, options) end

---Zeros of a shape.
---Shapes: shape. `ipu.zeros{2, 3}` → [2, 3]
---Errors: a negative extent, an unknown dtype: `ipu.zeros{-1}`, `ipu.zeros({2}, {dtype = "float"})`
---@param shape any|integer
---@param options? {dtype?: string}
---@return ipulua.Tensor
function ipu.zeros(shape, options) end

---Ones of a shape.
---Shapes: shape. `ipu.ones{2, 3}` → [2, 3]
---Errors: a negative extent, an unknown dtype: `ipu.ones{2, -3}`, `ipu.ones({2}, {dtype = "double"})`
---@param shape any|integer
---@param options? {dtype?: string}
---@return ipulua.Tensor
function ipu.ones(shape, options) end

---One value, in a shape.
---Shapes: shape. `ipu.full({2, 3}, 0.5)` → [2, 3]
---Errors: a value that the dtype can't hold: `ipu.full({2}, 0.5, {dtype = "int32"})`
---@param shape any[]|integer
---@param value number|boolean
---@param options? {dtype?: string}
---@return ipulua.Tensor
function ipu.full(shape, value, options) end

---The identity matrix; with a batch_shape as many of them.
---Shapes: batch_shape and [num_rows, num_columns]. `ipu.eye(2, 3)` → [2, 3], `ipu.eye(2, {batch_shape = {4}})` → [4, 2, 2]
---Errors: a negative extent: `ipu.eye(-1)`
---@param num_rows integer
---@param options? {num_columns?: integer, batch_shape?: any|integer, dtype?: string}
---@return ipulua.Tensor
function ipu.eye(num_rows, options) end

---start, start + step … below stop; int32 for integers.
---Shapes: [ceil((stop - start) / step)], never below 0. `ipu.arange(1, 6, 2)` → [3]
---Errors: a step of 0: `ipu.arange(0, 5, 0)`
---@param start number
---@param options? {stop?: number, step?: number, dtype?: string}
---@return ipulua.Tensor
function ipu.arange(start, options) end

---num values from start to stop, both included.
---Shapes: [num]. `ipu.linspace(0, 1, 5)` → [5]
---Errors: a negative count: `ipu.linspace(0, 1, -5)`
---@param start number
---@param stop number
---@param options? {num?: integer, dtype?: string}
---@return ipulua.Tensor
function ipu.linspace(start, stop, options) end

---How often prediction j was made for label i, in row i and column j; with weights their sums.
---Shapes: [n], [n] → [num_classes, num_classes]
---Errors: classes outside of 0 … num_classes - 1, vectors of different lengths: `ipu.confusion_matrix(ipu.tensor({3}, "int32"), ipu.tensor({0}, "int32"), 3)`
---@param labels ipulua.Tensor|any[]
---@param predictions ipulua.Tensor|any[]
---@param num_classes integer
---@param options? {weights?: ipulua.Tensor|any[], dtype?: string}
---@return ipulua.Tensor
function ipu.confusion_matrix(labels, predictions, num_classes, options) end

---The elements that differ, in the order in which they appear. Further results: for each element
---the position of its like among them; how often each is there. NaNs count as one.
---Shapes: [...] → [n], the shape of x, [n]; n is `size` where that is given
---Units: positions count from 0, int32, as gather takes them; counts are int32
---Errors: a symbolic tensor without a size: `ipu.func(function(x) return ipu.unique(x) end)(x)`
---Source: tf.unique_with_counts
---@param x ipulua.Tensor|any[]
---@param options? {size?: integer, fill?: number}
---@return ipulua.Tensor values
---@return ipulua.Tensor indices
---@return ipulua.Tensor counts
function ipu.unique(x, options) end

---Where a tensor isn't zero (of bool: is true), in row-major order: a row of positions for each.
---Shapes: [...] → [n, rank], int32; n is `size` where that is given
---Units: positions count from 0, as gather_nd takes them
---Errors: a symbolic tensor without a size, a fill that is no integer: `ipu.func(function(x) return ipu.nonzero(x) end)(x)`
---Source: tf.where of one argument
---@param x ipulua.Tensor|any[]
---@param options? {size?: integer, fill?: number}
---@return ipulua.Tensor
function ipu.nonzero(x, options) end

---The parts of x at which a mask of its first axes is true.
---Shapes: x [m…, rest…], mask [m…] → [n, rest…]; n is `size` where that is given
---Errors: a mask of another shape or dtype, symbolic tensors without a size: `ipu.boolean_mask(x, {true})`
---Source: tf.boolean_mask
---@param x ipulua.Tensor|any[]
---@param mask ipulua.Tensor|any[]
---@param options? {size?: integer, fill?: number}
---@return ipulua.Tensor
function ipu.boolean_mask(x, mask, options) end

---Whether x is a tensor, of values or symbolic.
---Shapes: any
---@param x any
---@return boolean
function ipu.is_tensor(x) end

---x; writes its value to standard error at each execution.
---Shapes: [...] → [...]
---Errors: a value that is no tensor: `ipu.print_tensor("x")`
---Source: internal_ops.print_tensor of Graphcore's TensorFlow 2.6
---@param input any
---@param options? {name?: string}
---@return ipulua.Tensor
function ipu.print_tensor(input, options) end

---How tensors are printed from now on. Options that aren't given stay as they are. At first
---edgeitems is 3, precision 8 and threshold 1000. A number alone is printed with all its digits.
---Shapes: tensors of any shape are printed
---Errors: a precision below 0 or above 17: `ipu.set_printoptions{precision = 40}`
---Source: numpy.set_printoptions
---@param options? {edgeitems?: integer, precision?: integer, threshold?: integer}
function ipu.set_printoptions(options) end

---Tensors by name into .safetensors or .npz, one into .npy; the file is replaced as a whole.
---Shapes: any; of .npy one tensor
---Errors: another ending, values that are no tensors, a path that can't be written: `ipu.save("a.txt", {w = x})`, `ipu.save("a.npz", {1, "two"})`
---Source: the formats: safetensors (Hugging Face), NumPy's .npy and .npz
---@param path string ends in .safetensors, .npz or .npy
---@param tensors table<string, ipulua.Tensor>|ipulua.Tensor
function ipu.save(path, tensors) end

---The content of a file of ipu.save: a table of tensors by name; a .npy gives its tensor.
---Shapes: as they were saved
---Errors: a file that is not there, of another ending, or damaged (with the byte's position): `ipu.load "nowhere.npz"`
---@param path string
---@return table<string, ipulua.Tensor>|ipulua.Tensor
function ipu.load(path) end

---Seeds everything random: initial values, shuffling, and random numbers of compiled functions.
---Errors: a seed that is no integer: `ipu.random.set_seed(0.5)`
---@param seed integer
function ipu.random.set_seed(seed) end

---A variable with its value at once; initial_value may be a function that makes it.
---Shapes: the shape of initial_value; of a number a scalar []. `ipu.Variable(ipu.ones{2, 2}):read_value()` → [2, 2]
---Errors: a symbolic initial value, one that the dtype can't hold, one that has not the shape wanted: `ipu.func(function(a) return ipu.Variable(a) end)(x)`, `ipu.Variable({1, 2}, {shape = {3}})`
---Source: tf.Variable
---@param initial_value any
---@param options? {name?: string, trainable?: boolean, dtype?: string, shape?: any, synchronization?: any, aggregation?: any}
---@return ipulua.Tensor variable
function ipu.Variable(initial_value, options) end

---The variable of that name in the open scopes. It is made now, unless reuse says to use an earlier
---one.
---Shapes: shape, or the initializer's shape if it is a value
---Errors: no shape, a name that is taken, none to be used again, another shape or dtype than before: `ipu.get_variable "unshaped"`
---Source: tf.get_variable of TensorFlow 2.6
---@param name string
---@param options? {shape?: any[], dtype?: string, initializer?: any, trainable?: boolean, use_resource?: boolean}
---@return ipulua.Tensor variable
function ipu.get_variable(name, options) end

---Variables made by name inside are called "name/…".
---Errors: a reuse that is not true, false or "auto": `ipu.variable_scope("a", {reuse = "no"})`
---Source: tf.variable_scope of TensorFlow 2.6
---@param name string
---@param options? {reuse?: boolean|string, use_resource?: boolean}
---@return Scope
function ipu.variable_scope(name, options) end

---All variables there are, in the order of making.
---Shapes: each its own
---@return ipulua.Tensor[] variables
function ipu.global_variables() end

---Those that training changes.
---Shapes: each its own
---@return ipulua.Tensor[] variables
function ipu.trainable_variables() end

---An operation that gives the variables that get_variable and the optimizers of ipu.train have
---made so far their initial values. A Variable keeps its value.
---@return Operation
function ipu.global_variables_initializer() end

---Changes nothing, since initialisers run on the host anyway. Older scripts have it.
---Errors: more arguments than it has: `ipu.move_variable_initialization_to_cpu(1, 2)`
---Source: utils.move_variable_initialization_to_cpu of Graphcore's TensorFlow 2.6
---@param options? {graph?: any}
function ipu.move_variable_initialization_to_cpu(options) end

---Forgets the graph, its names, and the variables of get_variable.
function ipu.reset_default_graph() end

---Traced once per signature: dtypes and shapes of tensors, values of numbers, strings, booleans.
---The result is called like f. It keeps max_programs programs. Beyond that it drops the one that
---was called longest ago.
---Shapes: as f takes and gives them; extents are fixed for each signature
---Errors: f is no function; while f is traced whatever its ops say, with f's line: `ipu.func(1)`, `ipu.func(function(a) return ipu.matmul(a, a) end)(x)`
---Source: tf.function(jit_compile=True) of TensorFlow 2.6
---@param f function
---@param options? {name?: string, max_programs?: integer}
---@return ipulua.Function
function ipu.func(f, options) end

---`for i in ipu.range(n) do … end`: on the device inside a traced function, an ordinary loop
---outside.
---Shapes: i is an int32 scalar [] inside a traced function
---Errors: a count that is no integer; leaving a loop on the device by break: `ipu.range(1.5)`
---Source: for _ in tf.range(n) of TensorFlow 2.6
---@param n integer|ipulua.Tensor
---@return fun(): integer|ipulua.Tensor
function ipu.range(n) end

---true_fn() or false_fn(), chosen by a bool scalar; both are traced when pred is symbolic.
---Shapes: pred []; both branches give the same dtypes and shapes
---Errors: a pred that is no bool scalar, branches whose results differ: `ipu.cond(x, print, print)`
---@param pred any
---@param true_fn function
---@param false_fn function
---@return any what the branch gives
function ipu.cond(pred, true_fn, false_fn) end

---body while condition(carried…) holds; the condition never sees the infeed element.
---Shapes: carried values keep their shapes; condition gives a bool scalar []
---Errors: a body that returns other values than it is given, a condition that gives no bool scalar: `ipu.while_loop(function(i) return i end, function(i) return i end, {ipu.tensor(0)})`
---Source: loops.while_loop of Graphcore's TensorFlow 2.6
---@param condition function
---@param body function
---@param options? {inputs?: any, infeed_queue?: any, maximum_iterations?: integer|ipulua.Tensor, use_while_v1?: boolean}
---@return any the carried values
function ipu.while_loop(condition, body, options) end

---body(carried…, infeed element…) → new carried values, n times; n is a number or an int32 tensor.
---Shapes: carried values keep their shapes; n [] if it is a tensor
---Errors: a negative count, a body that takes or returns other values than are carried: `ipu.loops.repeat_n(-1, function() end)`, `ipu.loops.repeat_n(3, function() end, {0})`
---Source: loops.repeat of Graphcore's TensorFlow 2.6
---@param n any
---@param body function
---@param options? {inputs?: any, infeed_queue?: any, use_while_v1?: boolean}
---@return any the carried values
function ipu.loops.repeat_n(n, body, options) end

---body while condition(carried…) holds; the condition never sees the infeed element.
---Shapes: carried values keep their shapes; condition gives a bool scalar []
---Errors: a body that returns other values than it is given, a condition that gives no bool scalar: `ipu.while_loop(function(i) return i end, function(i) return i end, {ipu.tensor(0)})`
---Source: loops.while_loop of Graphcore's TensorFlow 2.6
---@param condition function
---@param body function
---@param options? {inputs?: any, infeed_queue?: any, maximum_iterations?: integer|ipulua.Tensor, use_while_v1?: boolean}
---@return any the carried values
function ipu.loops.while_loop(condition, body, options) end

---The values of a list, all of them there before any is used: `a, b = ipu.barrier{a, b}`.
---Shapes: any, each as it was
---Errors: an argument that is no list of tensors: `ipu.barrier(1)`
---@param list ipulua.Tensor[]
---@return ipulua.Tensor ... one for each of the list
function ipu.barrier(list) end

---A function of tensors that calls f on the host each time that the program comes to it. outputs =
---{{shape, dtype}, …} says the results of f.
---Shapes: results as outputs says: {{shape, dtype}, …}
---Errors: outputs of another form; when it runs, errors of f, or a result of another shape: `ipu.host_callback(print, {outputs = {1}})`
---@param f function
---@param options? {outputs?: any[], name?: string}
---@return fun(...): ...
function ipu.host_callback(f, options) end

---The argument of `depth` executions ago; zeros in the first ones. Only in a program: each call in
---the script has values of its own.
---Shapes: [...] → [...]
---Errors: outside of a compiled function, a depth below 1: `ipu.fifo(x, 2)`
---Source: internal_ops.fifo of Graphcore's TensorFlow 2.6
---@param x any
---@param depth integer
---@param options? {offload?: boolean, name?: string}
---@return ipulua.Tensor
function ipu.fifo(x, depth, options) end

---x, for which the machine may choose other tiles.
---Shapes: [...] → [...]
---Errors: a value that is no tensor: `ipu.remap("x")`
---Source: internal_ops.remap of Graphcore's TensorFlow 2.6
---@param x any
---@param options? {name?: string}
---@return ipulua.Tensor
function ipu.remap(x, options) end

---A function like f. The compiler keeps the code of equal operations once, outlined or not.
---Shapes: as func takes and gives them
---Errors: func is no function: `ipu.outlined_function(1)`
---Source: functional_ops.outlined_function of Graphcore's TensorFlow 2.6
---@param func function
---@param options? {unique_sharding?: boolean, keep_input_layouts?: boolean, name?: string}
---@return fun(...): ...
function ipu.outlined_function(func, options) end

---A function like fn, whose convolutions don't wait for each other. The results don't change.
---Shapes: as fn takes and gives them
---Errors: an fn that can't be called: `ipu.nn.multi_conv(3)`
---Source: nn_ops.multi_conv of Graphcore's TensorFlow 2.6
---@param fn function
---@param options? {options?: table}
---@return fun(...): ...
function ipu.nn.multi_conv(fn, options) end

---The result of ipu.func: called like the function, compiled for each signature.
---Made by `ipu.func(f)`.
---@class ipulua.Function
---@overload fun(...): ipulua.Function
local Function = {}

---The signatures traced so far, a text each: dtypes and shapes of tensors, values of all else.
---@return string[]
function Function:signatures() end

---Records the ops that run while it is open. Then gradient() differentiates them by any recorded
---variable or tensor. A tape gives gradients once, unless persistent is set. It works in compiled
---functions and outside.
---Shapes: each gradient has its source's shape
---Errors: an unknown argument: `ipu.GradientTape{persist = true}`
---Source: tf.GradientTape of TensorFlow 2.6
---@class ipulua.GradientTape: ipulua.Scope
---@overload fun(...): ipulua.GradientTape
ipu.GradientTape = {}

---The derivatives of each sample of target for the same sample of source. No sample may depend on
---another one. Without a path the result is nil. It makes a backward pass for each element of a
---sample.
---Shapes: target [batch, …], source [batch, …] → [batch, target's …, source's …]
---Errors: a second call without persistent, a source of another batch size: `ipu.GradientTape():batch_jacobian(ipu.ones{2, 3}, ipu.ones{3, 2})`
---Source: tf.GradientTape.batch_jacobian of TensorFlow 2.6
---@param target any
---@param source any
---@param options? {unconnected_gradients?: string}
---@return any
function ipu.GradientTape:batch_jacobian(target, source, options) end

---Gradients of target (a tensor or a list) for sources, in the structure of sources; nil where
---there is no path.
---Shapes: target any, summed; each gradient has its source's shape
---Errors: a second call without persistent, sources that are no tensors: `ipu.GradientTape():gradient(1, 2)`
---@param target any
---@param sources any
---@param options? {output_gradients?: any, unconnected_gradients?: string}
---@return any
function ipu.GradientTape:gradient(target, sources, options) end

---The derivatives of each element of target for each element of sources, in the structure of
---sources; nil where there is no path. It makes a backward pass for each element of target.
---Shapes: each result has target's shape, then its source's
---Errors: a second call without persistent, a target that is no tensor: `ipu.GradientTape():jacobian(1, 2)`
---Source: tf.GradientTape.jacobian of TensorFlow 2.6
---@param target any
---@param sources any
---@param options? {unconnected_gradients?: string}
---@return any
function ipu.GradientTape:jacobian(target, sources, options) end

---Everything recorded can be differentiated; only variables need watching, if
---watch_accessed_variables is false.
---Shapes: any
---Errors: a value that is no tensor: `ipu.GradientTape():watch("x")`
---@param value any a tensor, a variable, or a table of them
function ipu.GradientTape:watch(value) end

---d(sum of ys) / d xs, a list; nil where there is no path.
---Shapes: ys any, summed; each gradient has its x's shape
---Errors: outside of a traced function and a graph: `ipu.gradients(x, {v})`
---@param ys any
---@param xs any
---@param options? {grad_ys?: any}
---@return ipulua.Tensor[]
function ipu.gradients(ys, xs, options) end

---A function like f, which returns its value and a function from upstream to input gradients.
---Shapes: as f takes and gives them; each gradient has its input's shape
---Errors: f is no function; when called, results that are not a value and a function: `ipu.custom_gradient(1)`
---@param f function
---@return fun(...): ...
function ipu.custom_gradient(f) end

---x itself; the gradient that arrives at it is recorded under the tag in the innermost context or
---tape.
---Shapes: [...] → [...]
---Errors: x is no tensor: `ipu.capture_upstream_gradients(1)`
---Source: grad_util_ops.capture_upstream_gradients of Graphcore's TensorFlow 2.6
---@param x ipulua.Tensor
---@param options? {tag?: string}
---@return ipulua.Tensor
function ipu.capture_upstream_gradients(x, options) end

---Collects captured gradients while it is open. Afterwards captured_gradients[tag] is a gradient,
---or a list if several values had the tag.
---Source: GradientCaptureContext of Graphcore's TensorFlow 2.6
---@class ipulua.GradientCaptureContext: ipulua.Scope
---@overload fun(...): ipulua.GradientCaptureContext
ipu.GradientCaptureContext = {}

---A GradientTape whose gradient() fills captured_gradients, too.
---Shapes: each gradient has its source's shape
---Errors: an unknown argument: `ipu.GradientCaptureTape{persist = true}`
---Source: GradientCaptureTape of Graphcore's TensorFlow 2.6
---@class ipulua.GradientCaptureTape: ipulua.GradientTape
---@overload fun(...): ipulua.GradientCaptureTape
ipu.GradientCaptureTape = {}

---As GradientTape's; captured_gradients[tag] is filled beside it.
---Shapes: as GradientTape's
---Errors: arguments in one table, sources that are no tensors: `ipu.GradientCaptureTape():gradient(x, 1)`
---@param target any a tensor, or a list of them
---@param sources any a tensor, a variable, or a table of them
---@param ... any output_gradients, unconnected_gradients
---@return any
function ipu.GradientCaptureTape:gradient(target, sources, ...) end

---An op written in Lua: call(arguments…) gives its results. gradient(upstream…, arguments…,
---results…) gives the gradients of the tensors among its arguments. Without gradient the gradients
---of the ops in call are taken.
---Shapes: as call takes and gives them; each gradient has its argument's shape
---Errors: a name that is taken, also by a member of tensors, or no name: `ipu.register_op("matmul", print)`, `ipu.register_op("a b", print)`
---Source: custom_ops.precompiled_user_op of Graphcore's TensorFlow 2.6
---@param name string
---@param call function
---@param options? {gradient?: function}
---@return fun(...): ...
function ipu.register_op(name, call, options) end

---The ops of a shared object that was built against ipulua_op.h, by name.
---Errors: a file that is not there or has no table of ops, one built for another version: `ipu.load_op_library "./nowhere.so"`
---Source: custom_ops.precompiled_user_op of Graphcore's TensorFlow 2.6
---@param path string
---@return table<string, fun(...): ...>
function ipu.load_op_library(path) end

---Computes values of the graph that placeholders and ops outside of functions make; to be closed:
---`local sess <close> = ipu.Session()`.
---Errors: arguments that it doesn't have: `ipu.Session{graphs = 1}`
---Source: tf.compat.v1.Session of TensorFlow 2.6
---@class ipulua.Session
---@overload fun(...): ipulua.Session
ipu.Session = {}

---Drops its compiled programs; none runs any more.
function ipu.Session:close() end

---The values of the fetches, in their structure. Operations run and have no value.
---Shapes: fetches any; a fed value fits its placeholder, -1 being any extent
---Errors: a closed session, a placeholder that is not fed or fed with another dtype or shape, a fetch of another graph: `ipu.Session():run("loss")`
---@param ... any fetches, {feed_dict = {[placeholder] = value}}
---@return any
function ipu.Session:run(...) end

---Begins to run the fetches, and returns at once: job:wait() gives the result of run.
---Shapes: as run's
---Errors: as run's, and fetches that need no program: `ipu.Session():run_async(v)`
---@param ... any fetches, {feed_dict = {[placeholder] = value}}
---@return ipulua.Job
function ipu.Session:run_async(...) end

---A value that a session is fed; -1 where an extent is not known yet.
---Shapes: shape, -1 where an extent is not known
---Errors: an unknown dtype, a shape that is no list of extents: `ipu.placeholder("float", {2})`
---@param dtype string
---@param shape any
---@param options? {name?: string}
---@return ipulua.Tensor
function ipu.placeholder(dtype, shape, options) end

---computation(inputs…) as one device program: a list of its tensors, or an operation if it gives
---none.
---Shapes: inputs any; results as computation gives them
---Errors: computation is no function; whatever its ops say, with their line: `ipu.ipu_compiler.compile(1)`
---Source: ipu_compiler.compile of Graphcore's TensorFlow 2.6
---@param computation function
---@param options? {inputs?: any}
---@return ipulua.Tensor[]|Operation
function ipu.ipu_compiler.compile(computation, options) end

---Ops inside go to the device.
---Errors: a device that is neither the CPU nor an IPU: `ipu.device "gpu"`
---Source: tf.device of TensorFlow 2.6
---@param device string
---@return Scope
function ipu.device(device) end

---The same, for IPUs.
---Errors: a device that is no IPU: `ipu.ipu_scope "/cpu:0"`
---Source: scopes.ipu_scope of Graphcore's TensorFlow 2.6
---@param device string
---@return Scope
function ipu.ipu_scope(device) end

---Ops inside belong to that IPU of a replica; of a list, one for each output, nodes take the first.
---Errors: an index below 0 or beyond the largest machine (1023): `ipu.ipu_shard(-1)`
---Source: scopes.ipu_shard of Graphcore's TensorFlow 2.6
---@param index integer|integer[]
---@return Scope
function ipu.ipu_shard(index) end

---Changes nothing, since everything that is traced is compiled. Older scripts have it.
---Errors: an argument that is no integer: `ipu.ipu_jit_scope "a"`
---Source: scopes.ipu_jit_scope of Graphcore's TensorFlow 2.6
---@param ipu_scope integer
---@return Scope
function ipu.ipu_jit_scope(ipu_scope) end

---Ops inside run on the host, in the middle of the program.
---Errors: outside of a compiled function, within another one: `ipu.outside_compilation_scope()`
---Source: scopes.outside_compilation_scope of Graphcore's TensorFlow 2.6
---@param options? {name?: string}
---@return Scope
function ipu.outside_compilation_scope(options) end

---Names made inside begin with name.
---Errors: a name that is no string: `ipu.name_scope(1)`
---Source: tf.name_scope of TensorFlow 2.6
---@param name string
---@return Scope
function ipu.name_scope(name) end

---Attaches a key to the ops inside.
---Errors: a value that is no string: `ipu.frontend_attribute("a", 1)`
---Source: scopes.frontend_attribute of Graphcore's TensorFlow 2.6
---@param attribute_name string
---@param attribute_value string
---@param options? {restore_to?: string}
---@return Scope
function ipu.frontend_attribute(attribute_name, attribute_value, options) end

---The dtype that matrix products and convolutions inside add up in. Products of einsum, attention
---and recurrent layers are among them.
---Errors: a dtype other than float16 and float32: `ipu.partials_type "int32"`
---Source: scopes.partials_type of Graphcore's TensorFlow 2.6
---@param override_type string
---@return Scope
function ipu.partials_type(override_type) end

---float16 results of ops inside are rounded up or down by chance (true), or to the nearest (false).
---The chance belongs to an op's position in its program: one that is added in front of it changes
---it.
---Errors: an override that is no boolean: `ipu.stochastic_rounding(1)`
---Source: scopes.stochastic_rounding of Graphcore's TensorFlow 2.6
---@param override boolean
---@return Scope
function ipu.stochastic_rounding(override) end

---One element: x, in any structure.
---Shapes: any → one element of those shapes
---Errors: no tensor in x, a symbolic one: `data.from_tensors{}`
---@param x any a tensor, a number, or a table of them
---@return ipulua.Dataset
function ipu.data.from_tensors(x) end

---Slices along the first axis, which must be equally long in all components.
---Shapes: [n, ...] in each component → n elements [...]
---Errors: scalars, components of unequal lengths: `data.from_tensor_slices(1)`, `data.from_tensor_slices{ipu.ones{2}, ipu.ones{3}}`
---@param x any a tensor, a list of numbers, or a table of them
---@return ipulua.Dataset
function ipu.data.from_tensor_slices(x) end

---f is called at each start and returns an iterator as `for` takes it.
---Shapes: output_shapes, in the structure of output_types; -1 where an extent varies
---Errors: no output_shapes; when read, an element of another shape or without a component: `data.from_generator(ipairs, "float32")`
---@param f function
---@param output_types any
---@param options? {output_shapes?: any}
---@return ipulua.Dataset
function ipu.data.from_generator(f, output_types, options) end

---int64 scalars: start, start + step … below stop. A single argument is stop, and start is 0.
---Shapes: []
---Errors: a step of 0: `data.range(0, 5, 0)`
---@param start integer
---@param options? {stop?: integer, step?: integer}
---@return ipulua.Dataset
function ipu.data.range(start, options) end

---Elements of several datasets side by side; ends with the shortest. A table of datasets gives
---elements in its structure.
---Shapes: as in the datasets
---Errors: an argument that is no dataset: `data.zip(1)`
---@param ... ipulua.Dataset|table
---@return ipulua.Dataset
function ipu.data.zip(...) end

---The first buffer_size elements, kept in memory.
---Shapes: as in the dataset
---Errors: a size below 1; its iterator's next() beyond the last element: `data.BufferDataset(ds, 0)`
---Source: ipu.data.ops.dataset_ops.BufferDataset of Graphcore's TensorFlow 2.6
---@param dataset any
---@param buffer_size integer
---@return ipulua.Dataset
function ipu.data.BufferDataset(dataset, buffer_size) end

---The rows of an IDX file (MNIST's format), gzipped or not. With a second file, pairs of rows.
---Shapes: [n, ...] → n elements [...]; with labels pairs [...], []
---Errors: a file that is missing, damaged or no IDX file, files of unequal lengths: `data.from_idx "nowhere.gz"`
---Source: yann.lecun.com/exdb/mnist describes the format
---@param path string
---@param options? {labels?: string}
---@return ipulua.Dataset
function ipu.data.from_idx(path, options) end

---CIFAR's binary files, one or a list: uint8 [32, 32, 3] and an uint8 label. {classes = 100}:
---CIFAR-100, fine labels unless label_mode is "coarse".
---Shapes: [32, 32, 3], []
---Errors: a file that is missing or holds no whole records, other classes or label_mode: `data.from_cifar("nowhere.bin")`, `data.from_cifar("a.bin", {classes = 20})`
---Source: cs.toronto.edu/~kriz/cifar.html describes the format
---@param path string|any[]
---@param options? {classes?: integer, label_mode?: string}
---@return ipulua.Dataset
function ipu.data.from_cifar(path, options) end

---A table of numbers as text (RFC 4180): each record is a vector. With `label`, a column's name or
---position from 0, elements are pairs of a vector of the other columns and that number. {columns =
---{…}} chooses columns by name or position. A cell that is empty, NA, N/A or null is an error
---without `fill`. `fill` is a number, or a table of numbers by column. read_csv reads words, too.
---Shapes: [columns]; with a label pairs [columns], []
---Errors: a field that is no number (with its line), a missing cell without a fill, an unknown column, a file that is missing: `data.from_csv "nowhere.csv"`
---@param path string
---@param options? {columns?: any[], label?: string|integer, header?: boolean, separator?: string, dtype?: string, label_dtype?: string, fill?: number|table}
---@return ipulua.Dataset
function ipu.data.from_csv(path, options) end

---A table as text (RFC 4180) by columns: {name = a tensor, or a list of strings}. The second result
---is the type of each column's cells. Integers are "int32", or "int64" beyond its range. Fractions
---make a column "float32", or "float64" where float32 would round an integer of it or can't hold a
---number. Other columns are "text". Without a header the names are "column0" …. A cell that is
---empty, NA, N/A or null is an error, or becomes `fill`.
---Shapes: [records] each
---Errors: a missing cell without a fill (with its record and column), a number that int64 or float64 can't hold, an integer that float64 rounds beside a fraction, an unknown column, two of one name, a fill of a column that isn't read, an empty file, a file that is missing: `data.read_csv "nowhere.csv"`
---@param path string
---@param options? {columns?: any[], header?: boolean, separator?: string, fill?: number|string|table}
---@return table<string, any> columns, table<string, string> types
function ipu.data.read_csv(path, options) end

---A NumPy file: the rows of its array; of a .npz a dict of rows.
---Shapes: [n, ...] → n elements [...]
---Errors: a file that is missing or damaged, arrays of unequal lengths or of objects: `data.from_npy "nowhere.npy"`
---@param path string
---@return ipulua.Dataset
function ipu.data.from_npy(path) end

---A .safetensors file: a dict of the rows of its tensors.
---Shapes: [n, ...] → n elements [...]
---Errors: a file that is missing or damaged, tensors of unequal lengths: `data.from_safetensors "nowhere.safetensors"`
---@param path string
---@return ipulua.Dataset
function ipu.data.from_safetensors(path) end

---A text: lines as uint8 vectors, characters as int32 scalars (their Unicode numbers), or bytes as
---uint8 scalars.
---Shapes: [bytes of the line]; of characters and bytes []
---Errors: an unknown unit, a file that is missing: `data.from_text("a.txt", {unit = "word"})`
---@param path string
---@param options? {unit?: string}
---@return ipulua.Dataset
function ipu.data.from_text(path, options) end

---The pictures of a folder's folders: uint8 [height, width, channels] and an int32 label;
---{image_size = {h, w}} makes them one size. The second result is the list of class names.
---Shapes: [height, width, channels], []
---Errors: a folder without folders of pictures, an image_size that is not two positive integers; when read, a damaged picture: `data.from_image_folder("nowhere")`
---@param path string
---@param options? {image_size?: any[], channels?: integer}
---@return ipulua.Dataset
---@return string[] names of the classes
function ipu.data.from_image_folder(path, options) end

---A chain of C iterators: each method makes a longer one. An element is a value, several, or a
---table of them.
---@class ipulua.Dataset
---@overload fun(...): ipulua.Dataset
ipu.data.Dataset = {}

---f(dataset), for use in a chain of methods. f returns a dataset.
---Shapes: as in the dataset that f gives
---Errors: f gives no dataset: `ds:apply(function() return 1 end)`
---@param transformation_func function
---@return ipulua.Dataset
function ipu.data.Dataset:apply(transformation_func) end

---Stacks batch_size elements; without drop_remainder the first extent is unknown.
---Shapes: [...] → [batch_size, ...]; [-1, ...] without drop_remainder
---Errors: a size below 1; when read, elements of unequal shapes: `ds:batch(0)`
---@param batch_size integer
---@param options? {drop_remainder?: boolean}
---@return ipulua.Dataset
function ipu.data.Dataset:batch(batch_size, options) end

---Batches of elements of about the same length, padded to one shape. Bucket i holds lengths below
---bucket_boundaries[i]. A batch of bucket_batch_sizes[i] elements comes when the bucket is full.
---Batches that are not full come last, by bucket. The function is called in Lua for each element.
---Shapes: [a, ...] → [-1, -1, ...]
---Errors: boundaries that don't rise, not one batch size more than boundaries: `ds:bucket_by_sequence_length(function(x) return x.shape[1] end, {8, 4}, {2, 2, 2})`
---@param element_length_func function
---@param bucket_boundaries any
---@param bucket_batch_sizes any
---@param options? {padded_shapes?: any, padding_values?: any, pad_to_bucket_boundary?: boolean, drop_remainder?: boolean}
---@return ipulua.Dataset
function ipu.data.Dataset:bucket_by_sequence_length(element_length_func, bucket_boundaries, bucket_batch_sizes, options) end

---Keeps the elements of the first full pass, in memory or in a file.
---Shapes: as they were
---Errors: a file that can't be written, when it is read: `ds:cache(1)`
---@param options? {filename?: string}
---@return ipulua.Dataset
function ipu.data.Dataset:cache(options) end

---The number of elements; -1 if it is endless, -2 if it is unknown.
---@return integer
function ipu.data.Dataset:cardinality() end

---Its elements, then the elements of another dataset.
---Shapes: as they were; -1 where the two differ
---Errors: another structure, dtype or rank: `ds:concatenate(data.range(3):batch(2))`
---@param other ipulua.Dataset
---@return ipulua.Dataset
function ipu.data.Dataset:concatenate(other) end

---Pairs of an int64 number and the element.
---Shapes: [...] → [], [...]
---Errors: a start that is no integer: `ds:enumerate("a")`
---@param options? {start?: integer}
---@return ipulua.Dataset
function ipu.data.Dataset:enumerate(options) end

---The elements for which predicate gives true (a bool scalar).
---Shapes: predicate [...] → []; elements as they were
---Errors: a predicate that can't be traced or gives no bool scalar: `ds:filter(function(i) return ipu.tensor{true, false} end)`
---@param predicate function
---@param options? {eager?: boolean}
---@return ipulua.Dataset
function ipu.data.Dataset:filter(predicate, options) end

---Elements of the datasets that f makes, one dataset after another.
---Shapes: as in the datasets that f makes
---Errors: f gives no dataset: `ds:flat_map(function(i) return i end)`
---@param f function
---@return ipulua.Dataset
function ipu.data.Dataset:flat_map(f) end

---Elements of the datasets that f makes, cycle_length of them in turn, block_length at a time.
---Shapes: as in the datasets that f makes
---Errors: f gives no dataset, a cycle_length or block_length below 1: `ds:interleave(function() return ds end, {cycle_length = 0})`
---@param f function
---@param options? {cycle_length?: integer, block_length?: integer, num_parallel_calls?: integer}
---@return ipulua.Dataset
function ipu.data.Dataset:interleave(f, options) end

---`for x, y in ds:iter() do`: on the host, from the beginning.
---Shapes: elements as in the dataset
---@return fun(): ...
function ipu.data.Dataset:iter() end

---Inside a strategy an infeed, elsewhere an iterator on the host.
---Shapes: elements as in the dataset
---@return IPUOwnedIterator|HostIterator
function ipu.data.Dataset:iterator() end

---f of every element, in order; traced once, run on worker threads. With {eager = true} it is
---called in Lua instead. Its types are then learnt from the first element, unless output_types and
---output_shapes say them. Elements with strings are for Lua, too. So is an f that calls Hashing,
---StringLookup or TextVectorization.
---Shapes: as f gives them
---Errors: f can't be traced (it asks for a value, or opens a file); without eager, errors of its ops: `ds:map(function(i) return i:item() end)`
---@param f function
---@param options? {num_parallel_calls?: integer, eager?: boolean, deterministic?: boolean, output_types?: any, output_shapes?: any}
---@return ipulua.Dataset
function ipu.data.Dataset:map(f, options) end

---Batches of elements padded to one shape; -1: as long as the longest of the batch.
---Shapes: [a, ...] → [batch_size, longest or padded_shapes, ...]
---Errors: padded_shapes or padding_values of another structure; an element longer than its shape: `ds:padded_batch(2, {padded_shapes = "all"})`
---@param batch_size integer
---@param options? {padded_shapes?: any, padding_values?: any, drop_remainder?: boolean}
---@return ipulua.Dataset
function ipu.data.Dataset:padded_batch(batch_size, options) end

---Reads ahead on a thread. With nil or data.AUTOTUNE it reads as far ahead as helps.
---Shapes: as they were
---Errors: a size below -1: `ds:prefetch(-2)`
---@param options? {buffer_size?: integer}
---@return ipulua.Dataset
function ipu.data.Dataset:prefetch(options) end

---The last state. For each element in turn, f makes a new state of the state and the element. It is
---called in Lua.
---Shapes: as f gives them
---Errors: f gives nothing: `ds:reduce(0, function() end)`
---@param initial_state any
---@param reduce_func function
---@return any
function ipu.data.Dataset:reduce(initial_state, reduce_func) end

---All its elements, count times; without a count for ever.
---Shapes: as they were
---Errors: a count that is no integer: `ds:repeat_n(0.5)`
---@param options? {count?: integer}
---@return ipulua.Dataset
function ipu.data.Dataset:repeat_n(options) end

---Every num_shards-th element, from index (0-based).
---Shapes: as they were
---Errors: an index outside of 0 … num_shards - 1: `ds:shard(2, 2)`
---@param num_shards integer
---@param index integer
---@return ipulua.Dataset
function ipu.data.Dataset:shard(num_shards, index) end

---In random order: each time one of the buffer_size elements that come next.
---Shapes: as they were
---Errors: a size below 1: `ds:shuffle(0)`
---@param buffer_size integer
---@param options? {seed?: integer, reshuffle_each_iteration?: boolean}
---@return ipulua.Dataset
function ipu.data.Dataset:shuffle(buffer_size, options) end

---The elements after the first count ones.
---Shapes: as they were
---Errors: a count that is no integer: `ds:skip "one"`
---@param count integer
---@return ipulua.Dataset
function ipu.data.Dataset:skip(count) end

---The first count elements.
---Shapes: as they were
---Errors: a count that is no integer: `ds:take "one"`
---@param count integer
---@return ipulua.Dataset
function ipu.data.Dataset:take(count) end

---The elements before the first one for which predicate gives false (a bool scalar). It is called
---in Lua.
---Shapes: predicate [...] → []; elements as they were
---Errors: when read, a predicate that gives no bool scalar: `ds:take_while(function(i) return i end):iter()()`
---@param predicate function
---@return ipulua.Dataset
function ipu.data.Dataset:take_while(predicate) end

---The slices of the elements along their first axis, one by one.
---Shapes: [n, ...] → n elements [...]
---Errors: scalars: `ds:unbatch()`
---@return ipulua.Dataset
function ipu.data.Dataset:unbatch() end

---Elements that are datasets of size neighbours.
---Shapes: datasets of the shapes that the elements had
---Errors: a size or stride below 1, a negative shift: `ds:window(0)`
---@param size integer
---@param options? {shift?: integer, stride?: integer, drop_remainder?: boolean}
---@return ipulua.Dataset
function ipu.data.Dataset:window(size, options) end

---Options of other frameworks' pipelines are accepted; order is always deterministic here.
---Shapes: as they were
---@return ipulua.Dataset
function ipu.data.Dataset:with_options() end

---Pull elements from a dataset. The report is JSON text. apply_debug_options is accepted; it
---changes nothing here.
---Units: time_elapsed in seconds, total_bytes_processed in bytes, bandwidth in GB/s (1e9 bytes)
---Errors: no dataset, counts below 1: `ipu.dataset_benchmark.dataset_benchmark(1, 1, 1)`
---Source: dataset_benchmark.dataset_benchmark of Graphcore's TensorFlow 2.6
---@param dataset any
---@param number_of_epochs integer
---@param elements_per_epochs integer
---@param options? {print_stats?: boolean, apply_debug_options?: boolean, do_memcpy?: boolean}
---@return string
function ipu.dataset_benchmark.dataset_benchmark(dataset, number_of_epochs, elements_per_epochs, options) end

---The same for a dataset in an infeed queue; not for a queue that a program uses.
---Units: as dataset_benchmark's
---Errors: no infeed queue, counts below 1: `ipu.dataset_benchmark.infeed_benchmark(1, 1, 1)`
---Source: dataset_benchmark.infeed_benchmark of Graphcore's TensorFlow 2.6
---@param infeed_queue any
---@param number_of_epochs integer
---@param elements_per_epochs integer
---@param options? {print_stats?: boolean, do_memcpy?: boolean}
---@return string
function ipu.dataset_benchmark.infeed_benchmark(infeed_queue, number_of_epochs, elements_per_epochs, options) end

---A PNG or JPEG file's picture.
---Shapes: → [height, width, channels], uint8
---Errors: a file that is missing, damaged or of another format: `ipu.image.read("none.png")`
---@param path string
---@param options? {channels?: integer}
---@return ipulua.Tensor
function ipu.image.read(path, options) end

---Writes a picture, by the path's ending as PNG or JPEG.
---Shapes: [height, width] or [height, width, channels]; 1 to 4 channels, of JPEG 1 or 3
---Errors: another ending, another shape: `ipu.image.write("x.gif", ipu.ones{2, 2})`
---@param path string
---@param x ipulua.Tensor
---@param options? {scale?: boolean, quality?: integer}
function ipu.image.write(path, x, options) end

---Samples side by side in one picture, row by row, on white: for image.write.
---Shapes: [samples, height, width] or [samples, height, width, channels] → [rows, columns, channels]
---Errors: another rank, no samples: `ipu.image.grid(ipu.ones{4, 4})`
---@param x ipulua.Tensor
---@param options? {columns?: integer, gap?: integer, scale?: boolean}
---@return ipulua.Tensor uint8
function ipu.image.grid(x, options) end

---Brings a dataset's elements into programs. Threads read ahead. Loops of ipu.loops and pipelines
---take it. Components must have dtypes that the device has.
---Shapes: every extent of the elements must be known
---Errors: a dataset with unknown extents, int64 or float64 components, extents of 0; a prefetch_depth outside of 1 … 255 (nil and 0: 3): `ipu.IPUInfeedQueue(ds)`, `ipu.IPUInfeedQueue(data.from_tensors(x), {prefetch_depth = 256})`
---Source: ipu_infeed_queue.IPUInfeedQueue of Graphcore's TensorFlow 2.6
---@class ipulua.IPUInfeedQueue
---@overload fun(...): ipulua.IPUInfeedQueue
ipu.IPUInfeedQueue = {}

---Free it; a new start begins with the dataset's first element.
---Errors: a program that runs with it
---@return Operation
function ipu.IPUInfeedQueue:deleter() end

---Start the queue. The first program that reads it does so by itself, except in sessions.
---Errors: a second call without deleter() between
---@return Operation
function ipu.IPUInfeedQueue:initializer() end

---Takes values out of programs, also while they run. Mode ALL keeps every value since the last
---dequeue, LAST the newest.
---Errors: an unknown mode, a buffer_depth below 1: `ipu.IPUOutfeedQueue{outfeed_mode = "SOME"}`
---Source: ipu_outfeed_queue.IPUOutfeedQueue of Graphcore's TensorFlow 2.6
---@class ipulua.IPUOutfeedQueue
---@overload fun(...): ipulua.IPUOutfeedQueue
ipu.IPUOutfeedQueue = {}

---Drops values that were not dequeued; not while a program runs with it.
---@return Operation
function ipu.IPUOutfeedQueue:deleter() end

---All values since the last call, stacked (mode ALL); the newest (mode LAST).
---Shapes: mode ALL: [n, ...] of n values [...]; LAST: [...]; with replicas [n, replicas, ...] and [replicas, ...]
---Errors: a queue that no program has put anything into, inside of a compiled function: `ipu.IPUOutfeedQueue():dequeue()`
---@param options? {wait_for_completion?: boolean}
---@return any
function ipu.IPUOutfeedQueue:dequeue(options) end

---Only inside a traced function; once per queue and function.
---Shapes: any without extents of 0
---Errors: outside of a compiled function, a second time in one, a value without tensors: `ipu.IPUOutfeedQueue():enqueue(x)`
---@param value any a tensor, a number, or a table of them
---@param ... any nothing: values that belong together are one table, enqueue{a, b}
---@return Operation
function ipu.IPUOutfeedQueue:enqueue(value, ...) end

---One value at a time, until the queue is empty; with a job, until that has ended too.
---Shapes: [...] of each value; with replicas [replicas, ...]
---Errors: a queue of mode LAST, an argument that is no job: `ipu.IPUOutfeedQueue{outfeed_mode = "LAST"}:iter()`
---@param job ipulua.Job?
---@return fun(): any
function ipu.IPUOutfeedQueue:iter(job) end

---A queue that empties itself when its block ends.
---Errors: an unknown mode: `ipu.ScopedIPUOutfeedQueue{outfeed_mode = "SOME"}`
---Source: ipu_outfeed_queue.ScopedIPUOutfeedQueue of Graphcore's TensorFlow 2.6
---@class ipulua.ScopedIPUOutfeedQueue: ipulua.IPUOutfeedQueue
---@overload fun(...): ipulua.ScopedIPUOutfeedQueue
ipu.ScopedIPUOutfeedQueue = {}

---Variables made in its scope live on the IPU, and functions that it runs are compiled. A device of
---several IPUs makes replicas, or the shards or stages of a model.
---Errors: a device of another form; when it is used, one that is not configured: `ipu.IPUStrategy("/device:GPU:0")`
---Source: ipu_strategy.IPUStrategyV1 of Graphcore's TensorFlow 2.6
---@class ipulua.IPUStrategy
---@overload fun(...): ipulua.IPUStrategy
ipu.IPUStrategy = {}

---Inside a compiled function the sum or mean over the replicas, elsewhere the value itself.
---Shapes: [...] → [...]
---Errors: a reduction other than SUM and MEAN: `ipu.IPUStrategy():reduce("MAX", x)`
---@param reduce_op string SUM or MEAN
---@param value ipulua.Tensor
---@return ipulua.Tensor
function ipu.IPUStrategy:reduce(reduce_op, value) end

---Run a compiled function; {a, b, name = c} are its arguments.
---Shapes: as fn takes and gives them
---Errors: fn is not made by ipu.func, float64 inputs or results: `ipu.IPUStrategy():run(print)`
---@param fn any
---@param options? {args?: any, kwargs?: table}
---@return any
function ipu.IPUStrategy:run(fn, options) end

---Begin to run a compiled function, and go on at once.
---Shapes: as fn takes and gives them
---Errors: as run's; errors while it runs are raised by wait(): `ipu.IPUStrategy():run_async(print)`
---@param fn any
---@param options? {args?: any, kwargs?: table}
---@return ipulua.Job
function ipu.IPUStrategy:run_async(fn, options) end

---Until it is closed, models and variables are made for the strategy's device:
---`local _ <close> = strategy:scope()`.
---@return Scope
function ipu.IPUStrategy:scope() end

---A function that runs on a thread of its own, begun by strategy:run_async or Session:run_async.
---Made by `strategy:run_async(f)`.
---@class ipulua.Job
---@overload fun(...): ipulua.Job
local Job = {}

---Asks it to stop after the iteration that it is in; wait() then raises.
function Job:cancel() end

---Whether it has ended, well or with an error.
---@return boolean
function Job:done() end

---Waits for the end; returns the function's results, or raises its error.
---Errors: an error of the function; a cancelled job
---@return any
function Job:wait() end

---One training on the replicas of all processes that a launcher started, or of one process alone.
---Errors: a device of another form; a library of MPI that the launcher doesn't fit: `ipu.PopDistStrategy("/device:GPU:0")`
---Source: popdist_strategy.PopDistStrategy of Graphcore's TensorFlow 2.6
---@class ipulua.PopDistStrategy: ipulua.MultiStrategy
---@overload fun(...): ipulua.PopDistStrategy
ipu.PopDistStrategy = {}

---Fills in a configuration's index among the instances: experimental.multi_replica_distribution.
---Errors: an argument that is no IPUConfig: `ipu.PopDistStrategy():update_ipu_config(1)`
---@param cfg ipulua.IPUConfig
function ipu.PopDistStrategy:update_ipu_config(cfg) end

---As PopDistStrategy, under the name that older scripts say.
---Errors: variables_on_host = true: `ipu.IPUMultiWorkerStrategy{variables_on_host = true}`
---Source: ipu_multi_worker_strategy.IPUMultiWorkerStrategyV1 of Graphcore's TensorFlow 2.6
---@class ipulua.IPUMultiWorkerStrategy: ipulua.MultiStrategy
---@overload fun(...): ipulua.IPUMultiWorkerStrategy
ipu.IPUMultiWorkerStrategy = {}

---Which worker this process is: task_type, task_id, num_workers, environment and the workers'
---hosts.
---Errors: an argument, which it has none of: `ipu.MPIClusterResolver(1)`
---@class ipulua.MPIClusterResolver
---@overload fun(...): ipulua.MPIClusterResolver
ipu.MPIClusterResolver = {}

---Joins the other instances, as strategies do by themselves.
---Errors: a library that the launcher doesn't fit
function ipu.popdist.init() end

---Whether a launcher started this process.
---@return boolean
function ipu.popdist.isPopdistEnvSet() end

---How many instances there are.
---@return integer
function ipu.popdist.getNumInstances() end

---Which one this is, from 0.
---@return integer
function ipu.popdist.getInstanceIndex() end

---Replicas of all instances.
---@return integer
function ipu.popdist.getNumTotalReplicas() end

---Replicas of this instance.
---@return integer
function ipu.popdist.getNumLocalReplicas() end

---The number, among all, of this instance's first replica.
---@return integer
function ipu.popdist.getReplicaIndexOffset() end

---IPUs of a replica: the number given to set_ipu_config, else --ipus-per-replica, else 1.
---@return integer
function ipu.popdist.getNumIpusPerReplica() end

---The device id of this instance's IPUs: its group of local replicas times IPUs, in the order of
---instances.
---Errors: more IPUs than the machine has: `ipu.popdist.getDeviceId(1024)`
---@param options? {ipus_per_replica?: integer}
---@return integer
function ipu.popdist.getDeviceId(options) end

---Makes an IPUConfig one for this instance: its IPUs, its index among the instances. Returns it.
---Errors: more IPUs than the machine has
---@param config any
---@param options? {ipus_per_replica?: integer, configure_device?: boolean}
---@return ipulua.IPUConfig
function ipu.popdist.set_ipu_config(config, options) end

---f(…) on the instances that are listed; all wait for its end. An error in it is everybody's.
---Errors: an instance that there is not, no function: `ipu.popdist.execute_on_instances({0}, 1)`
---@param list integer[]
---@param f function
---@param ... any handed to f
---@return any ... what f gave; nothing on the others
function ipu.popdist.execute_on_instances(list, f, ...) end

---Changes nothing: instances leave each other at the script's end.
function ipu.popdist.finalizeBackend() end

---The sum or mean of all instances' values, added in their order; of one instance the value.
---Shapes: [...] → [...], the same everywhere
---Errors: another combination than SUM and MEAN, booleans, a call inside of a compiled function: `ipu.distributed.allreduce(x, "MAX")`
---@param x any
---@param reduce_op any
---@param options? {tensor_name?: string}
---@return ipulua.Tensor
function ipu.distributed.allreduce(x, reduce_op, options) end

---The values of all instances, stacked along a new first axis.
---Shapes: [...] → [instances, ...]
---Errors: a call inside of a compiled function: `ipu.func(function(a) return ipu.distributed.allgather(a) end)(x)`
---@param x any
---@param options? {tensor_name?: string}
---@return ipulua.Tensor
function ipu.distributed.allgather(x, options) end

---One instance's value, on all; the others give one of its type.
---Shapes: [...] → [...]
---Errors: a root that there is not: `ipu.distributed.broadcast(x, {root_rank = 9})`
---@param x any
---@param options? {root_rank?: integer, tensor_name?: string}
---@return ipulua.Tensor
function ipu.distributed.broadcast(x, options) end

---Waits until all instances are there.
---Errors: a call inside of a compiled function
function ipu.distributed.barrier() end

---The cost of meetings since the start: {meetings, bytes_sent, bytes_received, seconds, waited}.
---Units: bytes; seconds
---@return table
function ipu.distributed.statistics() end

---The argument of a function of distribute_datasets_from_function.
---Made by `strategy:distribute_datasets_from_function(f)`.
---@class ipulua.InputContext
---@overload fun(...): ipulua.InputContext
local InputContext = {}

---A replica's share of a global batch.
---Errors: a size that the replicas don't divide
---@param size integer of the global batch
---@return integer
function InputContext:get_per_replica_batch_size(size) end

---The base of optimizers in the manner of sessions: `ipu.train.Optimizer:extend("Name")` with
---`apply_gradient(g, v)`.
---Shapes: gradients and variables alike
---@class ipulua.Optimizer
---@overload fun(...): ipulua.Optimizer
ipu.train.Optimizer = {}

---Makes one update of one variable; subclasses define it. Returns the assigned value.
---Shapes: g and v alike
---Errors: always, unless a subclass defines it: `ipu.train.Optimizer():apply_gradient(x, v)`
---@param g ipulua.Tensor
---@param v ipulua.Tensor
---@return any
function ipu.train.Optimizer:apply_gradient(g, v) end

---Updates the variables; in a session's graph the operation that does it.
---Shapes: each gradient has its variable's shape
---Errors: no gradient at all, one of another dtype or shape than its variable's: `ipu.train.GradientDescentOptimizer(0.1):apply_gradients{{nil, v}}`
---@param ... any grads_and_vars, {global_step, name}; or gradients, variables
---@return Operation
function ipu.train.Optimizer:apply_gradients(...) end

---Called before the updates of all variables; subclasses may define it.
function ipu.train.Optimizer:begin_update() end

---Pairs {gradient, variable} of the variables that the loss depends on; the gradient is nil if
---there is no path.
---Shapes: loss any, summed; each gradient has its variable's shape
---Errors: a loss that is not symbolic: `ipu.train.GradientDescentOptimizer(0.1):compute_gradients(x)`
---@param loss any
---@param options? {var_list?: any[], grad_loss?: any}
---@return table[]
function ipu.train.Optimizer:compute_gradients(loss, options) end

---All variables of the optimizer, for a checkpoint.
---@return table[] {path =, variable =}
function ipu.train.Optimizer:entries() end

---compute_gradients and apply_gradients in one.
---Shapes: loss any, summed
---Errors: as compute_gradients' and apply_gradients': `ipu.train.GradientDescentOptimizer(0.1):minimize(x)`
---@param loss any
---@param options? {var_list?: any[], global_step?: any, name?: string}
---@return Operation
function ipu.train.Optimizer:minimize(loss, options) end

---The learning rate as a number, or a tensor of a dtype.
---Shapes: [] if it is a tensor
---Errors: a tensor of several elements; errors of learning_rate, if it is a function: `ipu.train.GradientDescentOptimizer(function() error("no rate") end):rate("float32")`
---@param dtype string
---@return number|ipulua.Tensor
function ipu.train.Optimizer:rate(dtype) end

---Sets its variables, those there are and those still to be made.
---Shapes: each tensor has its variable's shape
---Errors: a tensor of another shape
---@param tensors table<string, ipulua.Tensor> by path
function ipu.train.Optimizer:restore(tensors) end

---A scalar of the optimizer itself.
---Shapes: []
---Errors: a dtype that there is not: `ipu.train.GradientDescentOptimizer(0.1):scalar("count", 0, "int")`
---@param slot string
---@param value number
---@param dtype string?
---@return ipulua.Tensor
function ipu.train.Optimizer:scalar(slot, value, dtype) end

---A variable beside v: made with a value at the first call, the same one afterwards.
---Shapes: as v
---Errors: v is no variable: `ipu.train.GradientDescentOptimizer(0.1):slot("v", "m")`
---@param v ipulua.Tensor
---@param slot string
---@param value number? what all elements start from; 0 by default
---@param dtype string? v's by default
---@return ipulua.Tensor
function ipu.train.Optimizer:slot(v, slot, value, dtype) end

---v ← v − learning_rate·g.
---Shapes: gradients and variables alike; learning_rate []
---Errors: a learning_rate that is no number, tensor or function: `ipu.train.GradientDescentOptimizer "0.1"`
---Source: tf.compat.v1.train.GradientDescentOptimizer of TensorFlow 2.6
---@class ipulua.GradientDescentOptimizer: ipulua.Optimizer
---@overload fun(...): ipulua.GradientDescentOptimizer
ipu.train.GradientDescentOptimizer = {}

---sum ← momentum·sum + g; v ← v − learning_rate·sum (use_nesterov: − learning_rate·(g +
---momentum·sum)).
---Shapes: gradients and variables alike; learning_rate []; beside each variable: Momentum
---Errors: as GradientDescentOptimizer's; a momentum that is no number: `ipu.train.MomentumOptimizer(0.1)`
---Source: tf.compat.v1.train.MomentumOptimizer of TensorFlow 2.6
---@class ipulua.MomentumOptimizer: ipulua.Optimizer
---@overload fun(...): ipulua.MomentumOptimizer
ipu.train.MomentumOptimizer = {}

---m ← beta1·m + (1 − beta1)·g and s ← beta2·s + (1 − beta2)·g². After t updates v ← v −
---learning_rate·√(1 − beta2ᵗ) / (1 − beta1ᵗ) · m / (√s + epsilon).
---Shapes: gradients and variables alike; learning_rate []; beside each variable: m, v
---Errors: as GradientDescentOptimizer's; an unknown argument: `ipu.train.AdamOptimizer{beta_1 = 0.5}`
---Source: arXiv:1412.6980; tf.compat.v1.train.AdamOptimizer of TensorFlow 2.6
---@class ipulua.AdamOptimizer: ipulua.Optimizer
---@overload fun(...): ipulua.AdamOptimizer
ipu.train.AdamOptimizer = {}

---s ← decay·s + (1 − decay)·g², from 1, and step = learning_rate·g / √(s + epsilon). Centered, s is
---less the squared mean of g. Then sum ← momentum·sum + step and v ← v − sum.
---Shapes: gradients and variables alike; learning_rate []; beside each variable: RMSProp, MeanGradient if centered, Momentum
---Errors: as GradientDescentOptimizer's: `ipu.train.RMSPropOptimizer()`
---Source: Tieleman & Hinton 2012, lecture 6.5; tf.compat.v1.train.RMSPropOptimizer of TensorFlow 2.6
---@class ipulua.RMSPropOptimizer: ipulua.Optimizer
---@overload fun(...): ipulua.RMSPropOptimizer
ipu.train.RMSPropOptimizer = {}

---sum ← sum + g²; v ← v − learning_rate·g / √sum.
---Shapes: gradients and variables alike; learning_rate []; beside each variable: Adagrad
---Errors: as GradientDescentOptimizer's: `ipu.train.AdagradOptimizer()`
---Source: Duchi, Hazan & Singer 2011 (JMLR 12); tf.compat.v1.train.AdagradOptimizer of TensorFlow 2.6
---@class ipulua.AdagradOptimizer: ipulua.Optimizer
---@overload fun(...): ipulua.AdagradOptimizer
ipu.train.AdagradOptimizer = {}

---The counter of updates, made at the first call; it lives on the CPU.
---Shapes: int64 []
---Source: tf.train.get_or_create_global_step of TensorFlow 2.6
---@return ipulua.Tensor
function ipu.train.get_or_create_global_step() end

---Objects that are saved together: `model`, `optimizer`, and others under any name. Others are
---models, layers, optimizers, variables, infeed queues, iterators and values that JSON can hold.
---Fields may be set later.
---Errors: a name that it can't save: `ipu.train.Checkpoint{thing = print}`
---Source: tf.train.Checkpoint of TensorFlow 2.6
---@class ipulua.Checkpoint
---@overload fun(...): ipulua.Checkpoint
ipu.train.Checkpoint = {}

---Sets everything as the newest complete checkpoint of a folder (or the one at this path) says;
---nothing is changed where one thing doesn't fit.
---Errors: no complete checkpoint, a file with another hash than state.json has for it, tensors of other shapes or names: `ipu.train.Checkpoint{model = model}:restore("nowhere")`
---@param dir string
---@return string path
function ipu.train.Checkpoint:restore(dir) end

---Writes a checkpoint into dir/step-NNNNNN; older ones but the newest max_to_keep (and the last
---that was said to be best) go. The number counts the updates of its Keras optimizer, or of its
---model's; of several the first by name. Without one it counts saves. A checkpoint of the same
---number is replaced.
---Errors: a folder that can't be written, a max_to_keep below 1: `ipu.train.Checkpoint{model = model}:save("/proc/none")`
---@param dir string
---@param options? {max_to_keep?: integer, best?: boolean, all_instances?: boolean}
---@return string path
function ipu.train.Checkpoint:save(dir, options) end

---The path of the newest checkpoint in a folder, nil when there is none.
---Errors: dir is no string: `ipu.train.latest_checkpoint(1)`
---Source: tf.train.latest_checkpoint of TensorFlow 2.6
---@param dir string
---@return string?
function ipu.train.latest_checkpoint(dir) end

---The base class of wrappers, to be extended. It hands everything on to the optimizer that it
---wraps.
---Shapes: gradients and variables alike
---Errors: opt is no optimizer of ipu.train: `ipu.optimizers.IpuOptimizer "sgd"`
---Source: optimizers.IpuOptimizer of Graphcore's TensorFlow 2.6
---@class ipulua.IpuOptimizer: ipulua.Optimizer
---@overload fun(...): ipulua.IpuOptimizer
ipu.optimizers.IpuOptimizer = {}

---Hands on the mean of each gradient over the replicas.
---Shapes: gradients and variables alike
---Errors: opt is no optimizer of ipu.train: `ipu.optimizers.CrossReplicaOptimizer "sgd"`
---Source: optimizers.CrossReplicaOptimizer of Graphcore's TensorFlow 2.6
---@class ipulua.CrossReplicaOptimizer: ipulua.IpuOptimizer
---@overload fun(...): ipulua.CrossReplicaOptimizer
ipu.optimizers.CrossReplicaOptimizer = {}

---For models cut by ipu_shard: an update stands on the shard of its variable.
---Shapes: gradients and variables alike
---Errors: opt is no optimizer of ipu.train: `ipu.optimizers.ShardedOptimizer "sgd"`
---Source: optimizers.ShardedOptimizer of Graphcore's TensorFlow 2.6
---@class ipulua.ShardedOptimizer: ipulua.IpuOptimizer
---@overload fun(...): ipulua.ShardedOptimizer
ipu.optimizers.ShardedOptimizer = {}

---Hands on f(gradient, variable) in place of each gradient. A sum accumulated in another dtype than
---the variable's goes through f once more: it may cast.
---Shapes: f gives a gradient of the shape that it is given
---Errors: opt is no optimizer of ipu.train, a mapping that is no function: `ipu.optimizers.MapGradientOptimizer("sgd", print)`
---Source: optimizers.MapGradientOptimizer of Graphcore's TensorFlow 2.6
---@class ipulua.MapGradientOptimizer: ipulua.IpuOptimizer
---@overload fun(...): ipulua.MapGradientOptimizer
ipu.optimizers.MapGradientOptimizer = {}

---A sum accumulated in another dtype than the variable's goes through the function once more: it
---may cast.
---Shapes: each gradient has its variable's shape
---Errors: as the wrapped optimizer's: `ipu.optimizers.MapGradientOptimizer(ipu.train.AdamOptimizer(0.1), print):apply_gradients{}`
---@param ... any as ipulua.Optimizer's
---@return Operation
function ipu.optimizers.MapGradientOptimizer:apply_gradients(...) end

---In a training loop: gradients of num_mini_batches iterations are accumulated, then the wrapped
---optimizer makes one update.
---Shapes: gradients and variables alike
---Errors: num_mini_batches below 1; when it is applied, outside of a training loop or in one whose count is no multiple: `ipu.optimizers.GradientAccumulationOptimizerV2(ipu.train.GradientDescentOptimizer(0.1), 0)`
---Source: gradient_accumulation_optimizer.GradientAccumulationOptimizerV2 of Graphcore's TensorFlow 2.6
---@class ipulua.GradientAccumulationOptimizerV2: ipulua.IpuOptimizer
---@overload fun(...): ipulua.GradientAccumulationOptimizerV2
ipu.optimizers.GradientAccumulationOptimizerV2 = {}

---The first version: sums, for GradientDescentOptimizer and MomentumOptimizer.
---Shapes: gradients and variables alike
---Errors: as V2's; another optimizer inside: `ipu.optimizers.GradientAccumulationOptimizer(ipu.train.AdamOptimizer(), 4)`
---Source: gradient_accumulation_optimizer.GradientAccumulationOptimizer of Graphcore's TensorFlow 2.6
---@class ipulua.GradientAccumulationOptimizer: ipulua.GradientAccumulationOptimizerV2
---@overload fun(...): ipulua.GradientAccumulationOptimizer
ipu.optimizers.GradientAccumulationOptimizer = {}

---GradientAccumulationOptimizerV2, its sums averaged over the replicas.
---Shapes: gradients and variables alike
---Errors: as GradientAccumulationOptimizerV2's: `ipu.optimizers.CrossReplicaGradientAccumulationOptimizerV2("sgd", 4)`
---Source: gradient_accumulation_optimizer.CrossReplicaGradientAccumulationOptimizerV2 of Graphcore's TensorFlow 2.6
---@class ipulua.CrossReplicaGradientAccumulationOptimizerV2: ipulua.GradientAccumulationOptimizerV2
---@overload fun(...): ipulua.CrossReplicaGradientAccumulationOptimizerV2
ipu.optimizers.CrossReplicaGradientAccumulationOptimizerV2 = {}

---GradientAccumulationOptimizer, its sums averaged over the replicas.
---Shapes: gradients and variables alike
---Errors: as GradientAccumulationOptimizer's: `ipu.optimizers.CrossReplicaGradientAccumulationOptimizer("sgd", 4)`
---Source: gradient_accumulation_optimizer.CrossReplicaGradientAccumulationOptimizer of Graphcore's TensorFlow 2.6
---@class ipulua.CrossReplicaGradientAccumulationOptimizer: ipulua.GradientAccumulationOptimizer
---@overload fun(...): ipulua.CrossReplicaGradientAccumulationOptimizer
ipu.optimizers.CrossReplicaGradientAccumulationOptimizer = {}

---Runs computational_stages, a list of functions, on gradient_accumulation_count micro-batches, and
---updates the weights by the result of optimizer_function. All data leaves by the outfeed.
---Shapes: a stage takes the values that the stage before it gives; a micro-batch is an element of infeed_queue
---Errors: a gradient_accumulation_count that the schedule can't run, stages whose values don't fit, fewer IPUs than device_mapping names, outfeed_loss without an optimizer_function: `ipu.pipeline{{print}, 4}`
---Source: pipelining_ops.pipeline of Graphcore's TensorFlow 2.6
---@param computational_stages any
---@param options? {gradient_accumulation_count?: any, gradient_accumulation_dtype?: string|function, gradient_accumulation_for_captured_grads?: boolean, repeat_count?: integer, batch_serialization_iterations?: integer, inputs?: any, infeed_queue?: any, outfeed_queue?: any, optimizer_function?: function, device_mapping?: any, pipeline_schedule?: any, recomputation_mode?: any, forward_propagation_stages_poplar_options?: any, backward_propagation_stages_poplar_options?: any, weight_update_poplar_options?: any, offload_weight_update_variables?: boolean, replicated_optimizer_state_sharding?: boolean, offload_activations?: boolean, offload_gradient_accumulation_buffers?: boolean, replicated_weight_sharding?: boolean, offload_weights?: boolean, continuous_weight_updates?: boolean, outfeed_loss?: boolean, accumulate_outfeed?: boolean, accumulate_outfeed_dtype?: string|function, outfeed_mask?: any[], reduction_method?: any, name?: string}
---@return Operation
function ipu.pipeline(computational_stages, options) end

---The result of a pipeline's optimizer function: the optimizer, the loss, how gradients are
---computed and what is captured.
---Shapes: loss is a value of the last stage, or computed from its values
---Errors: a loss that is no tensor, an optimizer that is none of ipu.train: `ipu.OptimizerFunctionOutput("sgd", x)`
---Source: pipelining_ops.OptimizerFunctionOutput of Graphcore's TensorFlow 2.6
---@class ipulua.OptimizerFunctionOutput
---@overload fun(...): ipulua.OptimizerFunctionOutput
ipu.OptimizerFunctionOutput = {}

---Options of a stage's convolutions and matrix products, partialsType and
---availableMemoryProportion. They go before the configuration's. Options of slices change nothing,
---there as here.
---Errors: options that are no table of texts: `ipu.PipelineStageOptions{matmul_options = 1}`
---Source: pipelining_ops.PipelineStageOptions of Graphcore's TensorFlow 2.6
---@class ipulua.PipelineStageOptions
---@overload fun(...): ipulua.PipelineStageOptions
ipu.PipelineStageOptions = {}

---Values that a stage which is computed again keeps instead: themselves, in their structure.
---Shapes: any, as they were
---Errors: values that are no tensors: `ipu.recomputation_checkpoint("x")`
---Source: pipelining_ops.recomputation_checkpoint of Graphcore's TensorFlow 2.6
---@param tensors any
---@param options? {name?: string}
---@return any
function ipu.recomputation_checkpoint(tensors, options) end

---The index of the micro-batch, an int32 scalar; counts from 0 in each run.
---Shapes: int32 []
---Errors: outside of a pipeline's stages: `ipu.get_current_iteration_counter()`
---Source: internal_ops.get_current_iteration_counter of Graphcore's TensorFlow 2.6
---@return ipulua.Tensor
function ipu.get_current_iteration_counter() end

---The timetable of a pipelined model, of a function that runs a pipeline, or of a schedule:
---{schedule =, device_mapping =, training =, count =}. With timing = "dependencies" its times are
---times of devices that don't wait for each other's time steps.
---Units: time steps; a step lasts as long as its longest stage; span: passes, compiled: cycles
---Errors: a model without stages, an unknown schedule, a mapping that the schedule can't have: `ipu.timetable{schedule = "Round", device_mapping = {0, 1}}`
---@param of any
---@param options? {timing?: string}
---@return Timetable
function ipu.timetable(of, options) end

---The combination of all elements, on every shard.
---Shapes: n tensors [...] → n tensors [...]
---Errors: fewer than two tensors, unequal dtypes or shapes, an unknown combination: `ipu.within_replica.all_reduce({x}, "ADD")`, `ipu.within_replica.all_reduce({x, x}, "HALF")`
---Source: within_replica_ops.all_reduce of Graphcore's TensorFlow 2.6
---@param input_shards any
---@param options? {op?: string}
---@return ipulua.Tensor[]
function ipu.within_replica.all_reduce(input_shards, options) end

---Shard i gets the i-th share of the combination, padded with zeros.
---Shapes: n tensors [m] → n tensors [ceil(m / n)]
---Errors: as all_reduce's; tensors of another rank than 1: `ipu.within_replica.reduce_scatter({x, x}, "ADD")`
---Source: within_replica_ops.reduce_scatter of Graphcore's TensorFlow 2.6
---@param input_shards any
---@param options? {op?: string}
---@return ipulua.Tensor[]
function ipu.within_replica.reduce_scatter(input_shards, options) end

---All elements joined along an axis, on every shard.
---Shapes: n tensors [..., m, ...] → n tensors [..., n * m, ...]
---Errors: fewer than two tensors, unequal dtypes or ranks: `ipu.within_replica.all_gather{x}`
---Source: within_replica_ops.all_gather of Graphcore's TensorFlow 2.6
---@param input_shards any
---@param options? {axis?: integer}
---@return ipulua.Tensor[]
function ipu.within_replica.all_gather(input_shards, options) end

---Softmax cross-entropy over the true classes and a sample of the others, for training only.
---sampled_values are classes, with the expected counts of the true and of the sampled ones. Without
---them, classes are drawn, small numbers more often.
---Shapes: weights [classes, dim], biases [classes], labels [batch, num_true], inputs [batch, dim] → [batch]
---Errors: counts that don't fit: `ipu.nn.sampled_softmax_loss(ipu.ones{5, 3}, ipu.ones{5}, ipu.zeros{2, 1}, ipu.ones{2, 3}, 6, 5)`
---Source: tf.nn.sampled_softmax_loss; Jean et al. 2015, arXiv:1412.2007
---@param weights ipulua.Tensor
---@param biases ipulua.Tensor
---@param labels ipulua.Tensor
---@param inputs ipulua.Tensor
---@param num_sampled integer
---@param num_classes integer
---@param options? {num_true?: integer, sampled_values?: any[], remove_accidental_hits?: boolean, seed?: integer}
---@return ipulua.Tensor
function ipu.nn.sampled_softmax_loss(weights, biases, labels, inputs, num_sampled, num_classes, options) end

---Noise-contrastive estimation: true classes told from a sample of the others, each by itself.
---Shapes: weights [classes, dim], biases [classes], labels [batch, num_true], inputs [batch, dim] → [batch]
---Errors: counts that don't fit: `ipu.nn.nce_loss(ipu.ones{5, 3}, ipu.ones{5}, ipu.zeros{2, 1}, ipu.ones{2, 3}, 6, 5)`
---Source: tf.nn.nce_loss; Gutmann & Hyvärinen 2010
---@param weights ipulua.Tensor
---@param biases ipulua.Tensor
---@param labels ipulua.Tensor
---@param inputs ipulua.Tensor
---@param num_sampled integer
---@param num_classes integer
---@param options? {num_true?: integer, sampled_values?: any[], remove_accidental_hits?: boolean, seed?: integer}
---@return ipulua.Tensor
function ipu.nn.nce_loss(weights, biases, labels, inputs, num_sampled, num_classes, options) end

---A table of embeddings on the host, {rows, width}; without an optimizer_spec it is not trained.
---Shapes: [rows, width]
---Errors: another shape, an optimizer_spec that is none: `ipu.create_host_embedding("table", {10})`
---Source: embedding_ops.create_host_embedding of Graphcore's TensorFlow 2.6
---@param name string
---@param shape any
---@param options? {dtype?: string, partition_strategy?: string, optimizer_spec?: table, initializer?: any}
---@return ipulua.HostEmbedding
function ipu.create_host_embedding(name, shape, options) end

---Rows that were looked up move by minus learning_rate times their gradients.
---Shapes: a learning_rate that is a tensor is []
---Errors: a learning_rate that is no number, variable or tensor: `ipu.HostEmbeddingOptimizerSpec "0.1"`
---Source: embedding_ops.HostEmbeddingOptimizerSpec of Graphcore's TensorFlow 2.6
---@class ipulua.HostEmbeddingOptimizerSpec
---@overload fun(...): ipulua.HostEmbeddingOptimizerSpec
ipu.HostEmbeddingOptimizerSpec = {}

---The same with the sum of accumulation_factor updates at a time.
---Shapes: a learning_rate that is a tensor is []
---Errors: as HostEmbeddingOptimizerSpec's; an accumulation_factor below 1: `ipu.HostEmbeddingSGDGAOptimizerSpec(0.1, 0)`
---Source: embedding_ops.HostEmbeddingSGDGAOptimizerSpec of Graphcore's TensorFlow 2.6
---@class ipulua.HostEmbeddingSGDGAOptimizerSpec: ipulua.HostEmbeddingOptimizerSpec
---@overload fun(...): ipulua.HostEmbeddingSGDGAOptimizerSpec
ipu.HostEmbeddingSGDGAOptimizerSpec = {}

---A table on the host: lookup(indices), register(session), and its present content as `value`.
---Made by `ipu.create_host_embedding(…)`.
---Shapes: value [rows, width]
---Source: embedding_ops.HostEmbedding of Graphcore's TensorFlow 2.6
---@class ipulua.HostEmbedding
---@overload fun(...): ipulua.HostEmbedding
local HostEmbedding = {}

---The rows of the table at indices: [indices…, width]. Indices outside are clipped, or an error.
---Shapes: indices [...] → [..., width]
---Errors: indices that are no integers; with clip_indices = false one outside of the table: `ipu.create_host_embedding("table", {4, 2}):lookup{0.5}`
---@param indices any
---@param options? {clip_indices?: boolean}
---@return ipulua.Tensor
function HostEmbedding:lookup(indices, options) end

---A scope within which a session's runs look rows up; the table is there with or without it.
---@return Scope
function HostEmbedding:register() end

---The devices that there are and how programs are made for them. Options are its fields, or fields
---of a category: `cfg.ipu_model.version`. An unknown one or a value of another type is an error.
---Errors: an unknown option, a value of another type: `set(cfg, "auto_select", 2)`, `set(cfg, "auto_select_ipus", "two")`
---Source: config.IPUConfig of Graphcore's TensorFlow 2.6
---@class ipulua.IPUConfig
---@overload fun(...): ipulua.IPUConfig
ipu.IPUConfig = {}

---The same as ipu.configure_ipu_system(self, ...).
---Errors: as ipu.configure_ipu_system's: `set(cfg, "auto_select_ipus", 3):configure_ipu_system()`
---@param ... any device, {reset_configuration = true}
function ipu.IPUConfig:configure_ipu_system(...) end

---An independent copy.
---@return ipulua.IPUConfig
function ipu.IPUConfig:copy() end

---Takes over the options of a table as to_dict makes it. Options that it lacks keep their values;
---one warning names them.
---Errors: an unknown option, a value of another type: `cfg:from_dict{ipus = 2}`
---@param dict table<string, any>
function ipu.IPUConfig:from_dict(dict) end

---Takes over options from JSON, as from_dict does from a table.
---Errors: a text that is no JSON object, an unknown option: `cfg:from_json "[1]"`
---@param text string as to_json makes it
function ipu.IPUConfig:from_json(text) end

---Facts about an option or a category; metadata:check_type(value) refuses a value of another type,
---metadata:warn_if_deprecated() says when it is deprecated.
---Errors: an unknown option: `cfg:get_attribute_metadata "ipus"`
---@param name string such as "ipu_model.version"
---@return table metadata name, type, types, default, deprecated, deprecated_msg, doc
function ipu.IPUConfig:get_attribute_metadata(name) end

---Every option by its full dotted name; tables are copies.
---@return table<string, any>
function ipu.IPUConfig:to_dict() end

---The options as JSON, names sorted.
---@return string
function ipu.IPUConfig:to_json() end

---Applies a configuration. A different one that is active is reset first, with a warning; an
---identical one is left as it is.
---Errors: a number of IPUs that the machine can't give (powers of two; 16 without --ipus), options that exclude each other, another active configuration with reset_configuration = false: `ipu.configure_ipu_system(set(cfg, "auto_select_ipus", 3))`
---Source: config.configure_ipu_system of Graphcore's TensorFlow 2.6
---@param config any
---@param options? {device?: string, reset_configuration?: boolean}
function ipu.configure_ipu_system(config, options) end

---Goes back to no configuration: devices are given up and compiled programs forgotten.
---Source: config.reset_ipu_configuration of Graphcore's TensorFlow 2.6
function ipu.reset_ipu_configuration() end

---The configured devices: {device = "/device:IPU:0", ipus = 4, id = 24, members = {4, 5, 6, 7}},
---one each.
---Errors: nothing is configured
---Source: config.get_ipu_config of Graphcore's TensorFlow 2.6
---@return table[]
function ipu.get_ipu_config() end

---How many IPUs a device has.
---Errors: a device that there is not: `ipu.get_num_of_ipus_in_device "/device:IPU:99"`
---Source: utils.get_num_of_ipus_in_device of Graphcore's TensorFlow 2.6
---@param ipu_device string|integer
---@param options? {device?: string}
---@return integer
function ipu.get_num_of_ipus_in_device(ipu_device, options) end

---Whether the limits of the IPU Model apply.
---Source: utils.running_on_ipu_model of Graphcore's TensorFlow 2.6
---@return boolean
function ipu.running_on_ipu_model() end

---Whether data of a category is made up instead of crossing between host and device.
---Errors: an unknown category: `ipu.use_synthetic_data_for "weights"`
---Source: utils.use_synthetic_data_for of Graphcore's TensorFlow 2.6
---@param category string infeed, outfeed, seed, hostembedding or parameters
---@return boolean
function ipu.use_synthetic_data_for(category) end

---Sets the run flags, in the form of IPULUA_FLAGS, which they replace; only while nothing is
---configured.
---Errors: an unknown flag, a value that it can't have, devices that there are already: `ipu.set_flags(1)`
---@param text string
function ipu.set_flags(text) end

---Bounds all that computes, dataset workers included; waits for programs that run (run_async).
---Units: threads; 0: as many as the CPU has cores
---Errors: a negative number: `ipu.set_num_threads(-1)`
---@param n integer
function ipu.set_num_threads(n) end

---Starts the random numbers of programs on a device again: the same seed gives the same sequence.
---Errors: a seed that is no integer, a device of another form: `ipu.reset_ipu_seed(0.5)`
---Source: utils.reset_ipu_seed of Graphcore's TensorFlow 2.6
---@param seed integer
---@param options? {device?: string, cpu_device?: string, experimental_identical_replicas?: boolean}
function ipu.reset_ipu_seed(seed, options) end

---The positions in a device that shards 0, 1, 2, … take: selection_order("SNAKE", 4) is {0, 1, 3,
---2}.
---Errors: an unknown order, a count outside of 1 … 1024: `ipu.selection_order("SPIRAL", 4)`
---Source: config.SelectionOrder of Graphcore's TensorFlow 2.6
---@param order string
---@param count integer
---@param options? {default_pipeline?: boolean}
---@return integer[]
function ipu.selection_order(order, count, options) end

---The price of a function or model: {target, ipus, replicas, instances, local_replicas, fits,
---seconds, samples_per_second, cycles,
---band, memory, max_tile_bytes, tile_bytes, stages, …}. Of a model: one weight update if it is
---compiled,
---else one prediction. A function that returns a model is called first; the weights made in it have
---no values, so that their size doesn't matter. With explain, explanation is a text about a program
---that doesn't fit, otherwise nil. It says by how much, and lists the largest tensors and the bytes
---that each remedy saves.
---Shapes: inputs: shapes, or {shape =, dtype =}, or tensors, with the batch
---Units: seconds; cycles of the chip's clock; memory in bytes; max_tile_bytes and tile_bytes in bytes of one tile; samples per second
---Errors: neither function nor model, a model that is not built when inputs aren't given, an unknown target, a number of IPUs that no device has (the IPU Model takes any); a program that doesn't fit is no error (fits is false): `ipu.estimate(1)`, `ipu.estimate(f, {target = "gc3"})`
---@param fn any
---@param options? {batch_size?: integer, inputs?: any, target?: string|table, ipus?: integer, instances?: integer, labels?: any, training?: boolean, topology?: string, host?: string, timing?: string, explain?: boolean}
---@return table
function ipu.estimate(fn, options) end

---The programs compiled since configuring, in that order.
---Units: executions, and time_steps of a pipeline, are counts
---@return table[]
function ipu.programs() end

---The nodes that are computed, in the order of tracing. Each is {op, name, shape, dtype, device,
---shard, stage, backward, line, attributes, operands, id, depth}. Nodes inside of loops and
---branches follow, one deeper. shard, stage and attributes are nil where there is none.
---Shapes: shape of each node as a list
---Errors: an argument that is neither a traced function of ipu.func nor a value of the graph: `ipu.graph.nodes(1)`
---@param fn any
---@return table[]
function ipu.graph.nodes(fn) end

---The nodes as text, a line for each, or as a drawing for Graphviz (format "dot"). With program =
---true it has the steps of the compiled program instead of the nodes.
---Shapes: the dtype and shape of each node stand in its line
---Errors: as graph.nodes'; an unknown format: `ipu.graph.print(f, {format = "svg"})`
---@param fn any
---@param options? {format?: string, program?: boolean}
---@return string
function ipu.graph.print(fn, options) end

---The events on the devices since the last call, of more than 10,000 the newest. A list of {type,
---timestamp, duration, device, module, tensors}.
---Units: timestamp in seconds since 1970, duration in seconds
---Source: gen_ipu_ops.ipu_event_trace of Graphcore's TensorFlow 2.6
---@return table[]
function ipu.ipu_event_trace() end

---A folder of its own for the reports of one piece of work.
---Source: ReportHelper of the tests and tutorials of Graphcore's TensorFlow 2.6
---@class ipulua.ReportHelper
---@overload fun(...): ipulua.ReportHelper
ipu.ReportHelper = {}

---Removes all reports.
function ipu.ReportHelper:clear_reports() end

---The only report; an error when there are none or several.
---Errors: no report, or several
---@return string
function ipu.ReportHelper:find_report() end

---The folders of all reports, oldest first.
---@return string[]
function ipu.ReportHelper:find_reports() end

---Programs compiled under the configuration write their reports into the helper's folder.
---Errors: config is no IPUConfig: `ipu.ReportHelper():set_autoreport_options(1)`
---@param config any
---@param options? {output_graph_profile?: boolean, output_execution_profile?: boolean, max_execution_reports?: integer}
function ipu.ReportHelper:set_autoreport_options(config, options) end

---Programs stop from now on at the first op that makes a NaN or an infinity, and say which and of
---what: slow, for looking.
function ipu.enable_check_numerics() end

---Programs run as usual again.
function ipu.disable_check_numerics() end

---x itself; an error where it holds a NaN or an infinity, at once or in each run of a program. The
---error has the message, the script's line and the first position.
---Shapes: [...] → the same
---Units: positions count from 0
---Errors: integers; a NaN or an infinity: `ipu.debugging.check_numerics({0, 0 / 0}, "loss")`
---Source: tf.debugging.check_numerics
---@param x ipulua.Tensor|any[]|number
---@param options? {message?: string}
---@return ipulua.Tensor
function ipu.debugging.check_numerics(x, options) end

---An error where two tensors differ, which broadcast; at once, or in a program whenever it comes
---by. A NaN differs from all.
---Shapes: x, y broadcast
---Units: positions count from 0
---Errors: shapes that don't broadcast, dtypes or elements that differ: `ipu.debugging.assert_equal({1, 2}, {1, 3})`
---Source: tf.debugging.assert_equal
---@param x ipulua.Tensor|any[]|number|boolean
---@param y ipulua.Tensor|any[]|number|boolean
---@param options? {message?: string}
function ipu.debugging.assert_equal(x, y, options) end

---An error where a tensor hasn't the shape given with it: {tensor, {2, -1, "n"}}. -1 is any extent;
---a name is the same extent wherever it stands.
---Shapes: any
---Errors: another shape, a pair of another form: `ipu.debugging.assert_shapes{{ipu.ones{2}, {3}}}`
---Source: tf.debugging.assert_shapes
---@param shapes any[]
function ipu.debugging.assert_shapes(shapes) end

---Opens the prompt where the script stands. Locals, upvalues and globals of that place can be read
---and set. The script goes on at the end of the input (Ctrl-D). Where standard input is no terminal
---nothing happens.
---Source: Python's breakpoint
function ipu.debug.breakpoint() end

---The library's newest error as a table, nil before the first one: ipu.last_error().
---@return LastError?
function ipu.last_error() end

---Seconds of a clock that only goes forward: the difference of two readings is a time.
---Units: seconds, from some moment before the program began
---@return number
function ipu.clock() end

---The JSON text of a value; an empty table is `{}` unless it is marked by `json.array`.
---Errors: values that JSON can't hold (functions, tables in a ring): `ipu.json.encode(print)`
---@param value any
---@param options {indent: integer?}? spaces for each level; without, one line
---@return string
function ipu.json.encode(value, options) end

---The value of a JSON text; `null` is `json.null`. Raises when the text is not JSON.
---Errors: a text that is not JSON, with its place: `ipu.json.decode "{1}"`
---@param text string
---@return any
function ipu.json.decode(text) end

---@alias ipulua.DeviceConnectionType "ALWAYS"|"ON_DEMAND"|"PRE_COMPILE"|"NEVER"
---@type table<string, ipulua.DeviceConnectionType>
ipu.DeviceConnectionType = {}

---@alias ipulua.ExecutionProfileType "NO_PROFILE"|"DEVICE_PROFILE"|"IPU_PROFILE"|"TILE_PROFILE"
---@type table<string, ipulua.ExecutionProfileType>
ipu.ExecutionProfileType = {}

---@alias ipulua.GradientAccumulationReductionMethod "SUM"|"MEAN"|"RUNNING_MEAN"
---@type table<string, ipulua.GradientAccumulationReductionMethod>
ipu.GradientAccumulationReductionMethod = {}

---@alias ipulua.IPUOutfeedMode "ALL"|"LAST"
---@type table<string, ipulua.IPUOutfeedMode>
ipu.IPUOutfeedMode = {}

---@alias ipulua.MergeRemoteBuffersBehaviour "NO_MERGING"|"MERGE"|"IF_BENEFICIAL"
---@type table<string, ipulua.MergeRemoteBuffersBehaviour>
ipu.MergeRemoteBuffersBehaviour = {}

---@alias ipulua.PipelineSchedule "Grouped"|"Interleaved"|"Sequential"|"OneFOneB"|"InterleavedVirtual"
---@type table<string, ipulua.PipelineSchedule>
ipu.PipelineSchedule = {}

---@alias ipulua.RecomputationMode "Auto"|"RecomputeThenBackpropagate"|"RecomputeAndBackpropagateInterleaved"
---@type table<string, ipulua.RecomputationMode>
ipu.RecomputationMode = {}

---@alias ipulua.ReplicatedMetricReductionMethod "NONE"|"LIST"|"SUM"|"MEAN"
---@type table<string, ipulua.ReplicatedMetricReductionMethod>
ipu.ReplicatedMetricReductionMethod = {}

---@alias ipulua.SchedulingAlgorithm "CHOOSE_BEST"|"CLUSTERING"|"POST_ORDER"|"LOOK_AHEAD"|"SHORTEST_PATH"
---@type table<string, ipulua.SchedulingAlgorithm>
ipu.SchedulingAlgorithm = {}

---@alias ipulua.SelectionOrder "AUTO"|"ZIGZAG"|"SNAKE"|"HOOF"
---@type table<string, ipulua.SelectionOrder>
ipu.SelectionOrder = {}

---@alias ipulua.StochasticRoundingBehaviour "OFF"|"ON"|"REPLICA_IDENTICAL_ONLY"
---@type table<string, ipulua.StochasticRoundingBehaviour>
ipu.StochasticRoundingBehaviour = {}

return ipu
