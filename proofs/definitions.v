(* The words that two or more files share, each defined once; and of each the few facts that they all
   use. A word of one page alone is defined in the file of that page.
   F is a field, R a ring or an ordered field; matrices have tokens as rows. *)
From mathcomp Require Import all_ssreflect all_algebra.
Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.
Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

(* ---- Columns, rows, lengths ---- *)

(* The column of n ones. *)
Definition one (F : fieldType) n : 'cV[F]_n := const_mx 1.
(* The 2 x 2 matrix with the rows (a, b) and (c, d). *)
Definition mx2 (F : ringType) (a b c d : F) : 'M[F]_2 :=
  \matrix_(i, j) (if i == 0 then (if j == 0 then a else b) else if j == 0 then c else d).
(* The inner product of two rows. *)
Definition dot (R : realFieldType) d (x y : 'rV[R]_d) : R := \sum_c x 0 c * y 0 c.
(* The squared Frobenius norm: for a row or a column its squared Euclidean length. *)
Definition sqnorm (R : realFieldType) m n (A : 'M[R]_(m, n)) : R := \sum_i \sum_j A i j ^+ 2.
(* The Frobenius norm: for a row or a column its Euclidean length. *)
Definition norm (R : rcfType) m n (A : 'M[R]_(m, n)) : R := Num.sqrt (sqnorm A).
(* s bounds A as an operator on columns: |A y| <= s |y|. *)
Definition bounds (R : realFieldType) m n (A : 'M[R]_(m, n)) s :=
  0 <= s /\ forall y : 'cV[R]_n, sqnorm (A *m y) <= s ^+ 2 * sqnorm y.
(* s is the spectral norm of A: the least bound. *)
Definition spectral_norm (R : realFieldType) m n (A : 'M[R]_(m, n)) s :=
  bounds A s /\ forall t, bounds A t -> s <= t.
(* A singular value decomposition P = sum_j s_j u_j v_j^T with r terms: the columns of U and of V are
   orthonormal, the singular values s decrease. Those beyond r are 0. *)
Definition is_svd (R : realFieldType) m n r (P : 'M[R]_(m, n)) (U : 'M[R]_(m, r)) (s : 'I_r -> R)
    (V : 'M[R]_(n, r)) :=
  [/\ P = U *m diag_mx (\row_i s i) *m V^T, U^T *m U = 1%:M, V^T *m V = 1%:M,
      forall i, 0 <= s i & forall i j : 'I_r, (i <= j)%N -> s j <= s i].

(* ---- Means ---- *)

(* The mean of finitely many numbers; of those in a set A (0 if A is empty). *)
Definition mean (F : fieldType) (I : finType) (f : I -> F) := (\sum_i f i) / #|I|%:R.
Definition mean_on (F : fieldType) (I : finType) (A : {set I}) (f : I -> F) :=
  (\sum_(i in A) f i) / #|A|%:R.
(* The expectation of f (o), where the o i are drawn independently, each with the chances p. *)
Definition expectation (R : realFieldType) (I T : finType) (p : T -> R) (f : {ffun I -> T} -> R) : R :=
  \sum_(o : {ffun I -> T}) (\prod_i p (o i)) * f o.
(* The sign that a fair coin shows. *)
Definition sgn (R : ringType) (b : bool) : R := if b then -1 else 1.
(* The matrix that takes tokens to their residuals: I - 1 1^T / n. *)
Definition centring (F : fieldType) n : 'M[F]_n := 1%:M - n%:R^-1 *: (one F n *m (one F n)^T).
(* The residual: tokens minus their mean. *)
Definition res (F : fieldType) n d (X : 'M[F]_(n, d)) : 'M[F]_(n, d) := centring F n *m X.

(* ---- Weights of attention ---- *)

(* All rows sum to one; and are probability vectors. *)
Definition sums_to_one (R : ringType) m n (P : 'M[R]_(m, n)) := forall i, \sum_j P i j = 1.
Definition stochastic (R : realFieldType) m n (P : 'M[R]_(m, n)) :=
  (forall i j, 0 <= P i j) /\ sums_to_one P.
(* Softmax of the logits a, with any function e for the exponential; of each row of a matrix of
   logits; and over the tokens in A alone. *)
Definition softmax (S : Type) (F : fieldType) (e : S -> F) n (a : 'I_n -> S) j : F :=
  e (a j) / \sum_k e (a k).
Definition softmax_rows (S : Type) (F : fieldType) (e : S -> F) m n (A : 'M[S]_(m, n)) : 'M[F]_(m, n) :=
  \matrix_(i, j) softmax e (A i) j.
Definition softmax_on (S : Type) (F : fieldType) (e : S -> F) n (A : {set 'I_n}) (a : 'I_n -> S) j : F :=
  if j \in A then e (a j) / \sum_(k in A) e (a k) else 0.
(* The entries of X whose score is largest, as often as they occur: hardmax averages these. *)
Definition winners (R : realFieldType) (T : Type) (score : T -> R) (X : seq T) :=
  [seq x <- X | all (fun y => score y <= score x) X].
(* A head: W_Q, W_K, their biases (rows), and W = W_V W_O. *)
Record attention_head (F : fieldType) d dqk := Head {
  WQ : 'M[F]_(d, dqk); WK : 'M[F]_(d, dqk); bQ : 'rV[F]_dqk; bK : 'rV[F]_dqk; W : 'M[F]_d }.
(* The logit that the token x gives the token y; s is 1 / sqrt(d_qk). All logits of the tokens X. *)
Definition score (F : fieldType) d dqk s (w : attention_head F d dqk) (x y : 'rV[F]_d) : F :=
  s * ((x *m WQ w + bQ w) *m (y *m WK w + bK w)^T) 0 0.
Definition logits (F : fieldType) d dqk s (w : attention_head F d dqk) n (X : 'M[F]_(n, d)) : 'M[F]_n :=
  \matrix_(i, j) score s w (row i X) (row j X).
Definition relu (R : realFieldType) (x : R) := Num.max 0 x.
Definition tanh (F : fieldType) (e : F -> F) x := (e x - e (- x)) / (e x + e (- x)).
(* The number that u reads off the row z. *)
Definition number (R : ringType) d (u : 'cV[R]_d) (z : 'rV[R]_d) : R := (z *m u) 0 0.

(* ---- Who hears of whom ---- *)

Section Hearing.
(* In layer l + 1 token k reads the tokens of A l k, l = 0, 1, ... *)
Variables (T : finType) (A : nat -> T -> {set T}).
(* Whom token k has heard of after t layers. *)
Fixpoint heard_of t k := if t is l.+1 then \bigcup_(j in A l k) heard_of l j else [set k].
(* The pattern in which each token also reads itself, as by a skip. *)
Definition with_self l k := k |: A l k.
(* Layers of any kind: the new state of k is a function of the old states of those that it reads. *)
Variables (St In : Type) (embed : T -> In -> St) (F : nat -> T -> (T -> St) -> St).
Definition local := forall l k s s', {in A l k, s =1 s'} -> F l k s = F l k s'.
Fixpoint state t (x : T -> In) k := if t is l.+1 then F l k (state l x) else embed k (x k).
(* What has not been heard of has no influence. *)
Lemma heard_of_state : local -> forall t x x' k, {in heard_of t k, x =1 x'} ->
  state t x k = state t x' k.
Proof.
move=> loc; elim=> [|t IH] x x' k eqx /=; first by rewrite eqx ?set11.
by apply: loc => j jA; apply: IH => i iS; apply: eqx; apply/bigcupP; exists j.
Qed.
(* k reads j in one of the first p layers. *)
Definition reads p k j := [exists l : 'I_p, j \in A l k].
End Hearing.
Lemma heard_self (T : finType) (A : nat -> T -> {set T}) t k : heard_of (with_self A) t.+1 k =
  heard_of (with_self A) t k :|: \bigcup_(j in A t k) heard_of (with_self A) t j.
Proof. by rewrite /= /with_self bigcup_setU big_set1. Qed.

(* ---- What all files use of these ---- *)

Section Lengths.
Variable R : realFieldType.
Lemma dotC d (x y : 'rV[R]_d) : dot x y = dot y x.
Proof. by apply: eq_bigr => c _; rewrite mulrC. Qed.
Lemma dotDl d (x y z : 'rV[R]_d) : dot (x + y) z = dot x z + dot y z.
Proof. by rewrite -big_split; apply: eq_bigr => c _; rewrite mxE mulrDl. Qed.
Lemma dotZl d a (x z : 'rV[R]_d) : dot (a *: x) z = a * dot x z.
Proof. by rewrite mulr_sumr; apply: eq_bigr => c _; rewrite mxE mulrA. Qed.
Lemma dotDr d (x y z : 'rV[R]_d) : dot z (x + y) = dot z x + dot z y.
Proof. by rewrite dotC dotDl !(dotC _ z). Qed.
Lemma dotZr d a (x z : 'rV[R]_d) : dot z (a *: x) = a * dot z x.
Proof. by rewrite dotC dotZl dotC. Qed.
Lemma dotNl d (x z : 'rV[R]_d) : dot (- x) z = - dot x z.
Proof. by rewrite -scaleN1r dotZl mulN1r. Qed.
Lemma dotNr d (x z : 'rV[R]_d) : dot z (- x) = - dot z x.
Proof. by rewrite dotC dotNl dotC. Qed.
Definition dotE := (dotDl, dotDr, dotNl, dotNr, dotZl, dotZr).
Lemma dot_mx d (x y : 'rV[R]_d) : dot x y = (x *m y^T) 0 0.
Proof. by rewrite mxE; apply: eq_bigr => c _; rewrite mxE. Qed.
Lemma sqnorm_dot d (x : 'rV[R]_d) : sqnorm x = dot x x.
Proof. by rewrite /sqnorm big_ord1; apply: eq_bigr => c _; rewrite expr2. Qed.
Lemma sqnorm_col m (y : 'cV[R]_m) : sqnorm y = \sum_i y i 0 ^+ 2.
Proof. by apply: eq_bigr => i _; rewrite big_ord1. Qed.
Lemma sqnorm_tr m d (M : 'M[R]_(m, d)) : sqnorm M = \tr (M *m M^T).
Proof. by apply: eq_bigr => i _; rewrite mxE; apply: eq_bigr => c _; rewrite mxE expr2. Qed.
Lemma sq_trmx m d (M : 'M[R]_(m, d)) : sqnorm M^T = sqnorm M.
Proof. by rewrite /sqnorm exchange_big; do 2!(apply: eq_bigr => ? _); rewrite mxE. Qed.
Lemma dot_ge0 d (x : 'rV[R]_d) : 0 <= dot x x.
Proof. by apply: sumr_ge0 => c _; rewrite -expr2 sqr_ge0. Qed.
Lemma sq_ge0 m d (M : 'M[R]_(m, d)) : 0 <= sqnorm M.
Proof. by do 2!(apply: sumr_ge0 => ? _); exact: sqr_ge0. Qed.
Lemma sq_eq0 m d (M : 'M[R]_(m, d)) : sqnorm M = 0 -> M = 0.
Proof.
have nn i : 0 <= \sum_c M i c ^+ 2 by apply: sumr_ge0 => c _; exact: sqr_ge0.
move=> z; apply/matrixP => i c; rewrite mxE; apply/eqP; rewrite -sqrf_eq0; apply/eqP.
have zi := @psumr_eq0P _ _ predT _ (fun i _ => nn i) z i isT.
exact: (@psumr_eq0P _ _ predT _ (fun c _ => sqr_ge0 (M i c)) zi c isT).
Qed.
End Lengths.
Lemma softmax_rowsE (S : Type) (F : fieldType) (e : S -> F) m n (A : 'M[S]_(m, n)) i j :
  softmax_rows e A i j = e (A i j) / \sum_k e (A i k).
Proof. by rewrite mxE. Qed.
Lemma logitsE (F : fieldType) d dqk s (w : attention_head F d dqk) n (X : 'M[F]_(n, d)) : logits s w X =
  s *: ((X *m WQ w + one F n *m bQ w) *m (X *m WK w + one F n *m bK w)^T).
Proof.
have E m (A : 'M[F]_(d, m)) b i : row i X *m A + b = row i (X *m A + one F n *m b).
  by rewrite linearD /= !row_mul (_ : row i (one F n) = 1%:M) ?mul1mx //; apply/rowP => k;
    rewrite ord1 !mxE.
apply/matrixP => i j; rewrite mxE /score !E [RHS]mxE; congr (_ * _).
by rewrite !mxE; apply: eq_bigr => k _; rewrite mxE [X in _ * X]mxE [X in _ = _ * X]mxE [X in _ * X]mxE.
Qed.
Lemma meanE (F : fieldType) n (f : 'I_n -> F) : mean f = (\sum_i f i) / n%:R.
Proof. by rewrite /mean card_ord. Qed.
Section Expectation.
Variables (R : realFieldType) (I T : finType) (p : T -> R).
Hypothesis p1 : \sum_t p t = 1.
(* Independent factors; and what depends on one draw alone. *)
Lemma expectation_prod (g : I -> T -> R) :
  expectation p (fun o => \prod_i g i (o i)) = \prod_i \sum_t p t * g i t.
Proof.
rewrite (bigA_distr_bigA (fun i t => p t * g i t)); apply: eq_bigr => o _.
by rewrite -big_split.
Qed.
Lemma expectation_one i (h : T -> R) :
  expectation p (fun o : {ffun I -> T} => h (o i)) = \sum_t p t * h t.
Proof.
pose g j t := if j == i then h t else 1.
have -> : expectation p (fun o : {ffun I -> T} => h (o i)) =
    expectation p (fun o => \prod_j g j (o j)).
  apply: eq_bigr => o _; congr (_ * _); rewrite (bigD1 i) //= /g eqxx big1 ?mulr1 // => j.
  by move=> /negbTE ->.
rewrite expectation_prod (bigD1 i) //= /g eqxx [X in _ * X]big1 ?mulr1 // => j /negbTE ->.
by rewrite -[RHS]p1; apply: eq_bigr => t _; rewrite mulr1.
Qed.
End Expectation.
Lemma centringE (F : fieldType) n : centring F n = 1%:M - n%:R^-1 *: const_mx 1.
Proof.
congr (_ - _ *: _); apply/matrixP => i j.
by rewrite !mxE big_ord1 !mxE mulr1.
Qed.
Section Ones.
Variables (F : numFieldType) (n : nat).
Local Notation ones := (one F n.+1).
Lemma ones_ones : ones^T *m ones = n.+1%:R%:M.
Proof.
apply/matrixP => i j; rewrite !ord1 !mxE; under eq_bigr do rewrite !mxE mulr1.
by rewrite sumr_const card_ord.
Qed.
Lemma centring_ones : centring F n.+1 *m ones = 0.
Proof.
rewrite mulmxBl mul1mx -scalemxAl -mulmxA ones_ones mul_mx_scalar scalerA.
by rewrite mulVf ?pnatr_eq0 // scale1r subrr.
Qed.
Lemma ones_centring : ones^T *m centring F n.+1 = 0.
Proof.
rewrite mulmxBr mulmx1 -scalemxAr mulmxA ones_ones mul_scalar_mx scalerA.
by rewrite mulVf ?pnatr_eq0 // scale1r subrr.
Qed.
End Ones.
Section Relu.
Variable R : realFieldType.
Implicit Type x : R.
Lemma relu_pos x : 0 <= x -> relu x = x. Proof. by move/max_idPr. Qed.
Lemma relu_neg x : x <= 0 -> relu x = 0. Proof. by move/max_idPl. Qed.
End Relu.
