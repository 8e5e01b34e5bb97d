(* Page 4, "Escaping collapse" (notebooks/path_decomposition/escaping_collapse.ipynb).
   Propositions 4.12, 4.6, 4.10, part of Theorem 4.3. Compile paths.v and rank_collapse.v first. *)
From mathcomp Require Import all_ssreflect all_algebra.
Require Import definitions paths rank_collapse.
Set Implicit Arguments.
Unset Strict Implicit.
Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

(* Proposition 4.12 (Silent heads). A skip in every layer, W_h = 0 for all heads; att is
   arbitrary. *)
Theorem silent (F : rcfType) H n d dv WV WO bV bO att L (X : 'M[F]_(n.+1, d)) :
  (forall l (h : 'I_H), @W F H d dv WV WO l h = 0) ->
  (forall l h, Pskip WV WO bV bO att X l h *m one F n.+1 = one F n.+1) ->
  res (SANs WV WO bV bO att L X) = res X.
Proof.
move=> W0 P1; elim: L => //= l IH; rewrite one_layer => [|h]; last exact: P1.
(* Each token gains the same row u. *)
rewrite big1 => [|h _]; last by rewrite W0 mulmx0.
by rewrite add0r /res mulmxDr -!/(res _) IH res_row addr0.
Qed.
Example silent_met (F : rcfType) (X : 'M[F]_2) :
  res (SANs (fun _ _ => 1%:M) (fun _ (_ : 'I_3) => 0) (fun _ _ => const_mx 1) (fun _ => const_mx 1)
         (fun _ _ _ => 1%:M) 7 X) = res X.
Proof. by apply: silent => l h; rewrite ?/W ?mulmx0 // /Pskip mul1mx. Qed.

(* Theorem 4.3, the step from attention to the skip: N is a norm, x i the tokens, s i the rows of
   SA(X); attention brings no two rows farther apart than c delta. *)
Section Skip.
Variables (R : realFieldType) (V : zmodType) (N : V -> R) (n : nat) (x s : 'I_n -> V) (c delta : R).
Hypotheses (tri : forall u v, N (u + v) <= N u + N v) (opp : forall u, N (- u) = N u).
Hypothesis diam : forall i k, N (x i - x k) <= delta.
Hypothesis attn : forall i k, N (s i - s k) <= c * delta.
Let y i := x i + s i.
Lemma difference i k : y i - y k = (x i - x k) + (s i - s k).
Proof. by rewrite /y opprD addrACA. Qed.
Theorem skip_upper i k : N (y i - y k) <= (1 + c) * delta.
Proof.
by rewrite difference mulrDl mul1r; apply: le_trans (tri _ _) (ler_add (diam i k) (attn i k)).
Qed.
Theorem skip_lower i k : N (x i - x k) = delta -> (1 - c) * delta <= N (y i - y k).
Proof.
move=> far; rewrite mulrBl mul1r ler_subl_addr -{1}far.
have -> : x i - x k = (y i - y k) - (s i - s k) by rewrite difference addrK.
apply: le_trans (tri _ _) _; rewrite opp; exact: ler_add (lexx _) (attn i k).
Qed.
End Skip.
(* Tokens 1, -1 with s = -x/2, so c = 1/2 and delta = 2, attain the left side. *)
Example skip_met : let x (i : 'I_2) : rat := if i == 0 then 1 else -1 in
  let s i := - x i / 2%:R in
  (forall i k, `|x i - x k| <= 2%:R) /\ (forall i k, `|s i - s k| <= 1 / 2%:R * 2%:R) /\
  `|(x 0 + s 0) - (x 1 + s 1)| = (1 - 1 / 2%:R) * 2%:R.
Proof.
by split; [|split]; do ?[case=> [[|[|]]] // ? [[|[|]]] // ?].
Qed.

(* Proposition 4.6 (LayerNorm divides from the left). *)
Section LayerNorm.
Variables (F : rcfType) (n d : nat) (gamma beta : 'rV[F]_d.+1) (eps : F).
Implicit Types (X : 'M[F]_(n, d.+1)).
(* The variance of the entries of token i. *)
Definition var X i : F := mean (fun j => (X i j - mean (X i)) ^+ 2).
Definition LayerNorm X : 'M[F]_(n, d.+1) := \matrix_(i, j)
  ((X i j - mean (X i)) / Num.sqrt (var X i + eps) * gamma 0 j + beta 0 j).
(* (4.9): C centres the entries of a token, and D with D_ii^2 = |C x_i|^2 / d + eps. *)
Definition C : 'M[F]_d.+1 := centring F d.+1.
Definition D_ii X i : F := Num.sqrt (sqnorm (row i (X *m C)) / d.+1%:R + eps).
Definition D_inv X : 'M[F]_n := diag_mx (\row_i (D_ii X i)^-1).
Lemma centre X i j : (X *m C) i j = X i j - mean (X i).
Proof.
rewrite /C centringE mulmxBr mulmx1 -scalemxAr !mxE; congr (_ - _); rewrite mulrC meanE; congr (_ / _).
by apply: eq_bigr => k _; rewrite mxE mulr1.
Qed.
Theorem from_the_left X :
  LayerNorm X = D_inv X *m (X *m C) *m diag_mx gamma + one F n *m beta.
Proof.
apply/matrixP => i j; rewrite mul_mx_diag mul_diag_mx 2!mxE [in RHS]mxE [in RHS]mxE.
rewrite [(one F n *m beta) i j]mxE big_ord1 [one F n i 0]mxE mul1r centre; congr (_ * _ + _).
rewrite [RHS]mulrC [(\row__ _) _ _]mxE /D_ii /var !meanE; congr (_ / Num.sqrt (_ / _ + _)).
by rewrite /sqnorm big_ord1; apply: eq_bigr => k _; rewrite mxE centre meanE.
Qed.
End LayerNorm.
(* The three tokens (1, -1), (2, -2), (-1, 1), with eps = 0, gain 1 and bias 0. *)
Section ThreeTokens.
Variable (F : rcfType).
Definition size_of (i : 'I_3) : F := nth 0 [:: 1; 2%:R; -1] i.
Definition pm (j : 'I_2) : F := if j == 0 then 1 else -1.
Definition X3 : 'M[F]_(3, 2) := \matrix_(i, j) (size_of i * pm j).
Definition N3 : 'M[F]_(3, 2) := LayerNorm (const_mx 1) 0 0 X3.
Lemma N3E i j : N3 i j = size_of i / `|size_of i| * pm j.
Proof.
have mean0 : mean (X3 i) = 0.
  by rewrite meanE big_ord_recl big_ord1 !mxE /= /pm /= mulr1 mulrN1 subrr mul0r.
have var1 : var X3 i = size_of i ^+ 2.
  rewrite /var meanE mean0 !big_ord_recl big_ord0 !mxE /pm /= !subr0 mulr1 mulrN1 sqrrN addr0.
  by rewrite -mulr2n -[_ *+ 2]mulr_natr mulfK ?pnatr_eq0.
by rewrite mxE mean0 var1 subr0 !mxE mulr1 !addr0 sqrtr_sqr mulrAC.
Qed.
(* No matrix M and no row b give N(X) = X M + 1 b; in particular no diagonal factor does. *)
Theorem no_map (M : 'M[F]_2) (b : 'rV[F]_2) : N3 != X3 *m M + one F 3 *m b.
Proof.
apply/eqP => /matrixP eq; pose z : F := M 0 0 - M 1 0.
have E i : size_of i / `|size_of i| = size_of i * z + b 0 0.
  have := eq i 0; rewrite N3E !mxE big_ord_recl !big_ord1 !mxE /pm /= !mulr1 mul1r => ->.
  by rewrite mulrN1 mulNr -mulrBr; congr (_ * (_ - M _ _) + _); apply: val_inj.
have := E 0; have := E 1; have := E 2%:R; rewrite /size_of /=.
(* The second token is twice the first, with the same image, so z = 0 and b = 1; but the third
   is -1. *)
rewrite normrN1 normr1 divr1 normr_nat divff ?pnatr_eq0 // divr1 => e3 e2 e1.
have z0 : 0 = z.
  have := etrans (esym e1) e2 => /addIr.
  by rewrite mul1r mulr_natl mulr2n -[X in X = _]addr0 => /addrI.
have b1 : b 0 0 = 1 by rewrite e1 -z0 mulr0 add0r.
have := e3; rewrite -z0 mulr0 add0r b1 => /eqP; rewrite eq_sym -addr_eq0.
by rewrite -mulr2n pnatr_eq0.
Qed.
End ThreeTokens.
